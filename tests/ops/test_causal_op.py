"""Causal attention in torch.ops.mala: one shot, in chunks, and token by token."""

import cases
import formula
import pytest
import torch

attention = torch.ops.mala.attention
attention_chunk = torch.ops.mala.attention_chunk
attention_step = torch.ops.mala.attention_step
TOKENS, DIM, VALUE_DIM = 7, 16, 24

# Rounding of the kernels and of the formula, relative to the largest value.
TOLERANCE = {torch.float: 5e-5, torch.double: 1e-11}


def assert_near(actual, expected, dtype=torch.double):
    error = (actual.double() - expected).abs().max() / expected.abs().max()
    assert error < TOLERANCE[dtype], f"relative error {error:.1e}"


def inputs(dtype=torch.double, tokens=TOKENS, batch=2):
    """q, k, v, local, gate; two heads of keys for four of queries."""
    sizes = [(4, DIM), (2, DIM), (2, VALUE_DIM), (4, VALUE_DIM), (4, VALUE_DIM)]
    return [cases.heads(batch, count, tokens, dim, dtype) for count, dim in sizes]


def whole(q, k, v, local, gate, **options):
    return attention(q, k, v, local=local, gate=gate, causal=True, **options)


def by_formula(q, k, v, local, gate, lengths={}, **options):
    if "cu_seqlens_q" in lengths:
        lengths = {**lengths, "cu_seqlens_k": lengths["cu_seqlens_q"]}
    tail = {"local": local, "gate": gate}
    return formula.attention_by_sequence(q, k, v, **tail, lengths=lengths, causal=True, **options)


def in_chunks(sizes, q, k, v, local, gate, **options):
    """out, state, count; the sizes sum to the tokens."""
    outs, state, count = [], None, None
    for parts in zip(*(x.split(sizes, dim=2) for x in (q, k, v, local, gate))):
        tail = {"local": parts[3], "gate": parts[4]}
        out, state, count = attention_chunk(*parts[:3], **tail, state=state, count=count, **options)
        outs.append(out)
    return torch.cat(outs, dim=2), state, count


def empty_state(batch, dtype=torch.double):
    elements = DIM * VALUE_DIM + 2 * DIM + VALUE_DIM
    return torch.zeros(batch, 2, elements, dtype=dtype), torch.zeros(batch, dtype=torch.long)


def by_steps(q, k, v, local, gate, **options):
    """out, state, count."""
    state, count = empty_state(q.shape[0])
    outs = []
    for n in range(q.shape[2]):
        q1, k1, v1, local1, gate1 = (x[:, :, n : n + 1] for x in (q, k, v, local, gate))
        outs.append(attention_step(q1, k1, v1, state, count, local=local1, gate=gate1, **options))
    return torch.cat(outs, dim=2), state, count


def all_options():
    return cases.all_options(TOKENS, TOKENS, DIM)


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_equals_the_formula_for_all_options(dtype):
    x = inputs(dtype)
    doubles = [y.double() for y in x]
    for options in all_options():
        assert_near(whole(*x, **options), by_formula(*doubles, **options), dtype)


def test_norm_that_is_not_given():
    """Balanced for causal mala, published for all else."""
    x = inputs()
    for rule in cases.RULES:
        wanted = "balanced" if rule == "mala" else "published"
        for function in (whole, lambda *y, **o: in_chunks([7], *y, **o)[0]):
            by_default = function(*x, rule=rule, rope="1d")
            assert torch.equal(by_default, function(*x, rule=rule, rope="1d", norm=wanted))
        q, k, v, _, _ = x
        published = attention(q, k, v, rule=rule, rope="1d", norm="published")
        assert torch.equal(attention(q, k, v, rule=rule, rope="1d"), published)


@pytest.mark.parametrize("options", [{}, {"rope": "1d"}, {"norm": "published", "rule": "linear"}])
def test_a_whole_text_is_a_chunk_without_states(options):
    q, k, v, local, gate = inputs()
    options = {"local": local, "gate": gate, **options}
    out = attention(q, k, v, causal=True, **options)
    assert torch.equal(out, attention_chunk(q, k, v, **options)[0])


@pytest.mark.parametrize("sizes", [[7], [3, 4], [1, 5, 1], [1] * 7])
def test_chunks_equal_one_shot(sizes):
    x = inputs()
    for options in all_options():
        out, state, count = in_chunks(sizes, *x, **options)
        assert_near(out, whole(*x, **options))
        assert_near(state, in_chunks([7], *x, **options)[1])
        assert count.tolist() == [7, 7]


def test_steps_equal_one_shot():
    x = inputs()
    for options in all_options():
        out, state, count = by_steps(*x, **options)
        assert_near(out, whole(*x, **options))
        assert_near(state, in_chunks([7], *x, **options)[1])
        assert count.tolist() == [7, 7]


def test_decode_goes_on_where_a_prompt_ended():
    x = inputs(torch.float, tokens=40)
    prompt, rest = zip(*(y.split([33, 7], dim=2) for y in x))
    _, state, count = in_chunks([33], *prompt, rope="1d")
    outs = []
    for n in range(7):
        q, k, v, local, gate = (y[:, :, n : n + 1] for y in rest)
        tail = {"local": local, "gate": gate}
        outs.append(attention_step(q, k, v, state, count, **tail, rope="1d"))
    wanted = by_formula(*(y.double() for y in x), rope="1d")[:, :, 33:]
    assert_near(torch.cat(outs, dim=2), wanted, torch.float)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("rope", cases.ROPES)
@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_equals_a_loop_over_sequences(kind, rope, kv_heads):
    lengths = cases.CAUSAL_LENGTHS[kind]
    for norm in cases.NORMS:
        options = {**cases.lengths_rope(rope), "norm": norm, "rule": cases.RULES[kv_heads % 3]}
        x = [y.detach() for y in cases.causal_inputs(kind, kv_heads)]
        assert_near(whole(*x, **lengths, **options), by_formula(*x, lengths=lengths, **options))


@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_state_holds_the_sums_of_the_keys_that_count(kind):
    """S, the sum of keys, that of rotated ones, and that of values, for each head of keys."""
    q, k, v, _, _ = (x.detach() for x in cases.causal_inputs(kind))
    lengths = cases.CAUSAL_LENGTHS[kind]
    _, state, count = attention_chunk(q, k, v, rope="1d", **lengths)
    offsets = lengths.get("cu_seqlens_q")
    pairs = {} if offsets is None else {"cu_seqlens_k": offsets}
    for i, (entry, _, keys) in enumerate(formula.spans(q, k, **lengths, **pairs)):
        b, values = formula.feature_map("elu1", k[entry, :, keys]), v[entry, :, keys]
        angles = formula.line_angles(b.shape[-2], b.shape[-1])
        turned = formula.rotate(b, (angles.cos(), angles.sin()))
        product = turned.transpose(-1, -2) @ values  # (Hk, D, E)
        sums = [product.flatten(1), b.sum(-2), turned.sum(-2), values.sum(-2)]
        assert_near(state[i], torch.cat(sums, dim=1))
        assert count[i] == b.shape[-2]


@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_lengths_go_on_from_a_state(kind):
    """Each sequence alone, with its own state, is the same."""
    x = [y.detach() for y in cases.causal_inputs(kind)]
    state, count = cases.text_state(5, rope="1d")
    lengths = cases.CAUSAL_LENGTHS[kind]
    out, after, total = attention_chunk(*x[:3], **lengths, rope="1d", state=state, count=count)
    ends = lengths.get("cu_seqlens_q", torch.tensor([0, 0, 0, 0]))
    for i in range(3):
        tokens = slice(ends[i], ends[i + 1]) if kind == "packed" else slice(None)
        entry = slice(0, 1) if kind == "packed" else slice(i, i + 1)
        own = {name: y[i : i + 1] for name, y in lengths.items() if name == "key_lengths"}
        before = {"state": state[i : i + 1], "count": count[i : i + 1]}
        parts = (y[entry, :, tokens] for y in x[:3])
        one, one_after, one_total = attention_chunk(*parts, **own, rope="1d", **before)
        assert_near(out[entry, :, tokens], one)
        assert_near(after[i], one_after[0])
        assert total[i] == one_total[0]


def test_tokens_beyond_the_count_are_never_read():
    q, k, v, _, _ = (x.detach() for x in cases.causal_inputs("counted"))
    lengths = cases.CAUSAL_LENGTHS["counted"]
    beyond = torch.arange(k.shape[2]).view(-1, 1) >= lengths["key_lengths"].view(-1, 1, 1, 1)
    spoiled = [x.masked_fill(beyond, float("nan")) for x in (k, v)]
    clean, spoilt = (attention_chunk(q, *y, **lengths, rope="1d") for y in ((k, v), spoiled))
    assert all(torch.equal(x, y) for x, y in zip(clean, spoilt))


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_layout_changes_no_value(layout):
    x = inputs(torch.float, tokens=40)
    y = [layout(z) for z in x]
    assert_near(whole(*y, rope="1d"), whole(*x, rope="1d").double(), torch.float)
    assert_near(by_steps(*y, rope="1d")[0], whole(*x, rope="1d").double(), torch.float)


def test_states_may_have_any_stride():
    x = inputs()
    state, count = empty_state(2)
    state = torch.rand(2, 2, 500, dtype=torch.double)[..., : state.shape[2]]
    count += 5
    spread = torch.stack([count, count * 0 - 9], dim=1)[:, 0]
    dense = attention_chunk(*x[:3], state=state.contiguous(), count=count)
    strided = attention_chunk(*x[:3], state=state, count=spread)
    assert not state.is_contiguous()
    assert all(torch.equal(a, b) for a, b in zip(dense, strided))


def test_states_before_are_left_alone():
    x = inputs()
    _, state, count = in_chunks([7], *x)
    kept = state.clone(), count.clone()
    attention_chunk(*x[:3], state=state, count=count)
    assert torch.equal(state, kept[0]) and torch.equal(count, kept[1])


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_states_are_double_for_every_type(half):
    x = [y.to(half) for y in inputs()]
    out, state, count = in_chunks([3, 4], *x)
    assert (out.dtype, state.dtype, count.dtype) == (half, torch.double, torch.long)
    step_out, step_state, _ = by_steps(*x)
    assert step_out.dtype == half and step_state.dtype == torch.double
    exact = by_formula(*(y.double() for y in x))
    simple = by_formula(*(y.float() for y in x)).to(half)
    allowed = 2 * (simple.double() - exact).abs().max()
    for actual in (out, step_out, whole(*x)):
        assert (actual.double() - exact).abs().max() <= allowed


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_autocast_takes_its_type_and_leaves_the_state(half):
    x = inputs(torch.float)
    narrow = [y.to(half) for y in x]
    with torch.autocast("cpu", dtype=half):
        chunked = in_chunks([3, 4], *x)
        stepped = by_steps(*x)
        assert whole(*x).dtype == half
    for ours, wanted in ((chunked, in_chunks([3, 4], *narrow)), (stepped, by_steps(*narrow))):
        assert all(torch.equal(a, b) for a, b in zip(ours, wanted))


def test_threads_change_no_bit():
    x = [y.requires_grad_() for y in inputs(torch.float, tokens=3000, batch=1)]
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out, state, _ = in_chunks([1700, 1300], *x, rope="1d")
        loss = out.sin().sum() + state.sin().sum()
        results.append([out, state, *torch.autograd.grad(loss, x)])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))


def test_step_returns_out_and_updates_in_place():
    q, k, v, _, _ = inputs(tokens=1)
    state, count = empty_state(2)
    versions = state._version, count._version
    out = attention_step(q, k, v, state, count)
    assert out.shape == (2, 4, 1, VALUE_DIM) and count.tolist() == [1, 1]
    assert state._version > versions[0] and count._version > versions[1]
    assert_near(state, attention_chunk(q, k, v)[1])


def test_step_in_inference_mode():
    q, k, v, _, _ = inputs(tokens=1)
    state, count = empty_state(2)
    with torch.inference_mode():
        out = attention_step(q, k, v, state, count)
    assert_near(out, attention(q, k, v, causal=True))
