"""The gradients of causal attention in torch.ops.mala, into its state and out of it."""

import cases
import formula
import pytest
import torch

attention = torch.ops.mala.attention
attention_chunk = torch.ops.mala.attention_chunk
attention_step = torch.ops.mala.attention_step
TOKENS, DIM = 4, 8
NAMES = ["q", "k", "v", "local", "gate"]


def leaves(layout=cases.dense, tokens=TOKENS, dtype=torch.double):
    """q, k, v, local, gate; one head of keys for two of queries."""
    sizes = [(2, DIM), (1, DIM), (1, 16), (2, 16), (2, 16)]
    x = (layout(cases.heads(1, count, tokens, dim, dtype)) for count, dim in sizes)
    return [y.requires_grad_() for y in x]


def state_leaf(count=1):
    """A state that a text of three tokens left, as a leaf, and its count."""
    state, keys = cases.text_state(3, count=count, kv_heads=1)
    return state.requires_grad_(), keys


def chunk(options, count=None):
    """out and the state after, as a function of the tensors alone."""

    def run(q, k, v, local, gate, state=None):
        before = {} if state is None else {"state": state, "count": count}
        return attention_chunk(q, k, v, local=local, gate=gate, **before, **options)[:2]

    return run


@pytest.mark.parametrize("rule", cases.RULES)
@pytest.mark.parametrize("norm", cases.NORMS)
def test_gradcheck_over_all_options(rule, norm):
    """By turns with and without tail and state; both results are differentiated together."""
    x, (state, count) = leaves(), state_leaf()
    for i, options in enumerate(cases.all_options(TOKENS + 3, TOKENS + 3, DIM)):
        if (options["rule"], options["norm"]) != (rule, norm):
            continue
        tail = [(None, None), (x[3], None), (None, x[4]), (x[3], x[4])][(i + i // 4) % 4]
        before = (state,) if i % 3 else ()
        fast = i % 7 != 0
        torch.autograd.gradcheck(chunk(options, count), (*x[:3], *tail, *before), fast_mode=fast)


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_gradients_in_every_layout(layout):
    x, (state, count) = leaves(layout), state_leaf()
    torch.autograd.gradcheck(chunk({"rope": "1d"}, count), (*x, state), fast_mode=True)
    gradients = torch.autograd.grad(chunk({"rope": "1d"})(*x)[0].sum(), x)
    if layout in (cases.dense, cases.tokens_outside, cases.channels_first, cases.channels_last):
        # But for sizes of one, whose strides mean nothing.
        assert [g.stride()[2:] for g in gradients] == [y.stride()[2:] for y in x]


@pytest.mark.parametrize("rope", cases.ROPES)
@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_gradcheck_with_lengths(kind, rope):
    options = {**cases.CAUSAL_LENGTHS[kind], **cases.lengths_rope(rope)}
    if rope == "table":
        options.update(cases.rope_options(rope, 9, 9, 8))
    state, count = cases.text_state(3)
    x = cases.causal_inputs(kind)
    run = chunk(options, count)
    torch.autograd.gradcheck(run, (*x, state.requires_grad_()), fast_mode=True)


@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_gradients_equal_those_of_the_formula(kind):
    lengths = cases.CAUSAL_LENGTHS[kind]
    pairs = {"cu_seqlens_k": lengths["cu_seqlens_q"]} if kind == "packed" else {}
    for options in ({"rope": "1d"}, {"rule": "linear"}, {"norm": "published", "rope": "1d"}):
        x = cases.causal_inputs(kind, dtype=torch.float)
        tail = dict(zip(NAMES[3:], x[3:]))
        out = attention(*x[:3], **tail, **lengths, **options, causal=True)
        ours = torch.autograd.grad(out.sin().sum(), x)

        doubles = [y.detach().double().requires_grad_() for y in x]
        tail = dict(zip(NAMES[3:], doubles[3:]))
        out = formula.attention_by_sequence(
            *doubles[:3], **tail, **options, lengths={**lengths, **pairs}, causal=True
        )
        wanted = torch.autograd.grad(out.sin().sum(), doubles)
        for name, actual, right in zip(NAMES, ours, wanted):
            error = (actual - right).abs().max() / right.abs().max()
            assert error < 5e-5, f"{name}: relative error {error:.1e}"


def chunk_gradients(x, state, count):
    """Of all inputs of a chunk and of its state before, from both results."""
    leaves = [y.detach().requires_grad_() for y in (*x, state)]
    out, after = chunk({"rope": "1d"}, count)(*leaves)
    return torch.autograd.grad(out.double().sin().sum() + after.sin().sum(), leaves)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_gradients_of_narrow_types(half):
    """Against those in double from the same inputs: out's gradient and ours are rounded once."""
    state, count = state_leaf()
    x = [y.to(half) for y in leaves(tokens=40, dtype=torch.float)]
    ours = chunk_gradients(x, state, count)
    wanted = chunk_gradients([y.double() for y in x], state, count)
    assert [g.dtype for g in ours] == 5 * [half] + [torch.double]
    for name, actual, right in zip((*NAMES, "state"), ours, wanted):
        error = (actual - right).abs().max() / right.abs().max()
        assert error < 2 * torch.finfo(half).eps, f"{name}: relative error {error:.1e}"


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_gradients_under_autocast(half):
    """Those of the narrowed inputs, in the types of the leaves."""
    state, count = state_leaf()
    x = leaves(tokens=40, dtype=torch.float)
    with torch.autocast("cpu", dtype=half):
        ours = chunk_gradients(x, state, count)
    wanted = chunk_gradients([y.to(half) for y in x], state, count)
    for y, actual, right in zip((*x, state), ours, wanted):
        assert actual.dtype == y.dtype
        assert torch.equal(actual, right.to(y.dtype))


@pytest.mark.parametrize("norm", [None, *cases.NORMS])
def test_gradients_flow_through_chunks(norm):
    """The gradient of three chunks is that of one: through the states that tie them."""
    x = leaves(tokens=9)
    options = {"norm": norm, "rope": "1d"}
    outs, state, count = [], None, None
    for parts in zip(*(y.split([2, 6, 1], dim=2) for y in x)):
        tail = dict(zip(NAMES[3:], parts[3:]))
        out, state, count = attention_chunk(
            *parts[:3], **tail, **options, state=state, count=count
        )
        outs.append(out)
    in_chunks = torch.autograd.grad(torch.cat(outs, dim=2).sin().sum() + state.sin().sum(), x)
    out, state = chunk(options)(*x)
    at_once = torch.autograd.grad(out.sin().sum() + state.sin().sum(), x)
    for actual, wanted in zip(in_chunks, at_once):
        torch.testing.assert_close(actual, wanted, rtol=1e-10, atol=1e-10)


def test_gradients_of_a_whole_text_are_those_of_a_chunk():
    x = leaves()
    options = {"local": x[3], "gate": x[4], "rope": "1d"}
    for given in (x, x[3:], x[:1]):
        whole = attention(*x[:3], causal=True, **options)
        of_whole = torch.autograd.grad(whole.cos().sum(), given)
        of_chunk = torch.autograd.grad(attention_chunk(*x[:3], **options)[0].cos().sum(), given)
        assert all(torch.equal(a, b) for a, b in zip(of_whole, of_chunk))


def test_second_derivative_of_a_whole_text_is_refused_in_words():
    x = leaves()
    out = attention(*x[:3], causal=True)
    (dq,) = torch.autograd.grad(out.sum(), x[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="only first derivatives are computed"):
        dq.sum().backward()


def test_only_the_results_that_were_used_send_gradients():
    x, (state, count) = leaves(), state_leaf()
    out, after = chunk({}, count)(*x, state)
    of_out = torch.autograd.grad(out.sum(), (*x, state), retain_graph=True)
    of_state = torch.autograd.grad(after.sum(), (*x, state), retain_graph=True)
    of_both = torch.autograd.grad(out.sum() + after.sum(), (*x, state))
    for first, second, both in zip(of_out, of_state, of_both):
        torch.testing.assert_close(first + second, both)
    assert torch.equal(of_state[0], torch.zeros_like(x[0]))  # queries leave nothing behind
    torch.testing.assert_close(of_state[5], torch.ones_like(state))  # what was there is still there


def test_only_asked_gradients_are_returned():
    x, (state, count) = leaves(), state_leaf()
    q, k, v, local, gate = x
    k.requires_grad_(False)
    out, _ = chunk({}, count)(*x, state)
    out.sum().backward()
    assert [y.grad is not None for y in (*x, state)] == [True, False, True, True, True, True]
    state.grad = None
    out, _ = chunk({}, count)(q, k, v, None, gate, state.detach())
    out.sum().backward()
    assert state.grad is None


def test_count_and_plain_calls_have_no_graph():
    x, (state, count) = leaves(), state_leaf()
    _, after, after_count = attention_chunk(*x[:3], state=state, count=count)
    assert after.requires_grad and not after_count.requires_grad
    with torch.no_grad():
        assert not chunk({}, count)(*x, state)[1].requires_grad
    assert not attention(*(y.detach() for y in x[:3]), causal=True).requires_grad


def test_changed_state_is_noticed():
    """Decoding in place from a state that a gradient still needs."""
    x, (state, count) = leaves(tokens=1), state_leaf()
    state = state * 1
    out, _ = chunk({}, count)(*x, state)
    with torch.no_grad():
        attention_step(*x[:3], state, count)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_second_derivative_is_refused_in_words():
    x, (state, count) = leaves(), state_leaf()
    out, _ = chunk({}, count)(*x, state)
    (gradient,) = torch.autograd.grad(out.sum(), state, create_graph=True)
    message = r"\[mala::attention_chunk_backward\] .* only first derivatives are computed"
    with pytest.raises(RuntimeError, match=message):
        gradient.sum().backward()


def test_table_that_requires_grad_is_refused():
    table = [torch.rand(TOKENS, 4, requires_grad=True) for _ in range(2)]
    with pytest.raises(RuntimeError, match=r"rope_table requires a gradient.*table.detach\(\)"):
        attention(*leaves()[:3], rope="table", rope_table=table, causal=True)


@pytest.mark.parametrize("name", [*NAMES, "state"])
def test_step_refuses_inputs_that_require_a_gradient(name):
    x = dict(zip(NAMES, (y.detach() for y in leaves(tokens=1))))
    state, count = state_leaf()
    x.update(state=state.detach(), count=count)
    attention_step(**x)
    x[name] = x[name].requires_grad_()
    message = r"requires a gradient.*torch.no_grad\(\), or use attention_chunk"
    kept = x["state"].clone()
    with pytest.raises(RuntimeError, match=message):
        attention_step(**x)
    assert torch.equal(x["state"], kept) and x["count"].item() == 4
    with torch.no_grad():
        attention_step(**x)
    assert x["count"].item() == 5
