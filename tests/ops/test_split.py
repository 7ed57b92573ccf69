"""Attention in two halves, attention_keys and attention_queries: alone, and over shards."""

import cases
import pytest
import torch
from compiling import expect_one_compilation
from torch._subclasses.fake_tensor import FakeTensorMode

attention = torch.ops.mala.attention
attention_keys = torch.ops.mala.attention_keys
attention_queries = torch.ops.mala.attention_queries
NAMES = ["q", "k", "v", "local", "gate"]


def key_options(options):
    """Of the options of a whole call, those of its keys."""
    kept = {name: options[name] for name in ("feature", "rope") if name in options}
    return {**kept, **one_side(options, 1), **pick(options, "key_lengths", "cu_seqlens_k")}


def query_options(options):
    names = ("rule", "norm", "feature", "key_mean", "scale", "eps", "rope", "local", "gate")
    return {**pick(options, *names, "cu_seqlens_q"), **one_side(options, 0)}


def pick(options, *names):
    return {name: options[name] for name in names if name in options}


def one_side(options, side):
    """Of pairs for q and k, one."""
    picked = {name: pair[side] for name, pair in pick(options, "rope_offset", "grid_width").items()}
    if "rope_table" in options:
        picked["rope_table"] = options["rope_table"][2 * side : 2 * side + 2]
    if "grid_widths" in options:
        picked["grid_widths"] = options["grid_widths"][:, side]
    return picked


def key_counts(k, options):
    """How many keys each sequence has."""
    if "cu_seqlens_k" in options:
        return options["cu_seqlens_k"].diff()
    return options.get("key_lengths", torch.full(k.shape[:1], k.shape[2]))


def in_halves(q, k, v, **options):
    state = attention_keys(k, v, **key_options(options))
    return attention_queries(q, state, key_counts(k, options), **query_options(options))


def results(function, x, options):
    """out and all gradients."""
    tail = dict(zip(NAMES[3:], x[3:]))
    out = function(*x[:3], **tail, **options)
    return [out, *torch.autograd.grad(out.sin().sum(), x)]


def inputs(dtype=torch.double, layout=cases.dense, batch=2):
    """q, k, v, local, gate; two heads of keys for four of queries."""
    sizes = [(4, 5, 16), (2, 7, 16), (2, 7, 24), (4, 5, 24), (4, 5, 24)]
    x = (layout(cases.heads(batch, *size, dtype)) for size in sizes)
    return [y.requires_grad_() for y in x]


def assert_close(actual, wanted, bound=1e-11):
    for x, y in zip(actual, wanted):
        assert x.shape == y.shape and x.dtype == y.dtype
        error = (x - y).abs().max() / y.abs().max()
        assert error < bound, f"relative error {error:.1e}"


def test_halves_equal_the_whole_for_all_options():
    x = inputs()
    for options in cases.all_options(5, 7, 16):
        assert_close(results(in_halves, x, options), results(attention, x, options))


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("rope", cases.ROPES)
@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_halves_equal_the_whole_with_lengths(kind, rope, kv_heads):
    options = {**cases.LENGTHS[kind], **cases.lengths_rope(rope), "norm": "balanced"}
    x = cases.lengths_inputs(kind, kv_heads)
    assert_close(results(in_halves, x, options), results(attention, x, options))


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_layout_changes_no_value(layout):
    options = {"rope": "1d"}
    dense, other = inputs(torch.float), inputs(torch.float, layout)
    for x, y in zip(dense, other):
        y.data.copy_(x)
    assert_close(results(in_halves, other, options), results(attention, dense, options), 5e-5)


def in_shards(q, k, v, *, sizes, **options):
    """Tokens spread over callers, each with its keys and its queries; the sums in between stand
    for an all-reduce."""
    shards = list(zip(*(x.split(sizes, dim=2) for x in (q, k, v))))
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    states = [
        attention_keys(k, v, rope="1d", rope_offset=begin)
        for begin, (_, k, v) in zip(begins, shards)
    ]
    counts = sum(torch.full(k.shape[:1], k.shape[2]) for _, k, _ in shards)
    outs = [
        attention_queries(q, sum(states), counts, rope="1d", rope_offset=begin, **options)
        for begin, (q, _, _) in zip(begins, shards)
    ]
    return torch.cat(outs, dim=2)


@pytest.mark.parametrize("norm", cases.NORMS)
@pytest.mark.parametrize("rule", cases.RULES)
def test_shards_equal_the_whole(rule, norm):
    q, k, v = (cases.heads(2, n, 9, 8, torch.double).requires_grad_() for n in (4, 2, 2))
    options = {"rule": rule, "norm": norm}
    wanted = attention(q, k, v, rope="1d", **options)
    for sizes in ([9], [4, 5], [1, 6, 2]):
        out = in_shards(q, k, v, sizes=sizes, **options)
        ours = torch.autograd.grad(out.sin().sum(), (q, k, v))
        right = torch.autograd.grad(wanted.sin().sum(), (q, k, v), retain_graph=True)
        assert_close([out, *ours], [wanted, *right])


@pytest.mark.parametrize("kind", cases.LENGTHS)
@pytest.mark.parametrize("rope", cases.ROPES)
def test_gradcheck_of_keys(kind, rope):
    """Without the whole in between: any gradient of the state may come back."""
    options = key_options({**cases.LENGTHS[kind], **cases.lengths_rope(rope), "feature": "exp"})
    _, k, v, _, _ = cases.lengths_inputs(kind)
    torch.autograd.gradcheck(lambda k, v: attention_keys(k, v, **options), (k, v), fast_mode=True)


@pytest.mark.parametrize("norm", cases.NORMS)
@pytest.mark.parametrize("rule", cases.RULES)
@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_gradcheck_of_queries(kind, rule, norm):
    options = {**cases.LENGTHS[kind], **cases.lengths_rope("1d"), "rule": rule, "norm": norm}
    q, k, v, local, gate = cases.lengths_inputs(kind)
    state = attention_keys(k, v, **key_options(options)).detach().requires_grad_()
    counts, options = key_counts(k, options), query_options(options)

    def run(q, state, local, gate):
        return attention_queries(q, state, counts, local=local, gate=gate, **options)

    torch.autograd.gradcheck(run, (q, state, local, gate), fast_mode=True)
    torch.autograd.gradcheck(run, (q, state, None, None), fast_mode=norm != "balanced")


def test_only_asked_gradients_are_returned():
    q, k, v, local, gate = inputs()
    k.requires_grad_(False)
    attention_keys(k, v).sum().backward()
    assert k.grad is None and v.grad is not None

    state = attention_keys(k, v).detach()
    counts = torch.tensor([7, 7])
    attention_queries(q, state, counts, gate=gate).sum().backward()
    assert q.grad is not None and gate.grad is not None
    q.requires_grad_(False)
    state.requires_grad_()
    attention_queries(q, state, counts).sum().backward()
    assert state.grad.shape == state.shape


def test_second_derivatives_are_refused_in_words():
    q, k, v, _, _ = inputs()
    state = attention_keys(k, v)
    out = attention_queries(q, state, torch.tensor([7, 7]))
    for name, result, input in (("queries", out, q), ("keys", state, k)):
        (gradient,) = torch.autograd.grad((result * result).sum(), input, create_graph=True)
        message = rf"\[mala::attention_{name}_backward\] .* only first derivatives are computed"
        with pytest.raises(RuntimeError, match=message):
            gradient.sum().backward()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_states_of_narrow_types_are_float(half):
    x = [y.detach() for y in inputs(torch.float)]
    narrow = [y.to(half) for y in x]
    state = attention_keys(*narrow[1:3])
    counts = torch.tensor([7, 7])
    out = attention_queries(narrow[0], state, counts, local=narrow[3], gate=narrow[4])
    assert (state.dtype, out.dtype) == (torch.float, half)
    wanted = attention(*narrow[:3], local=narrow[3], gate=narrow[4])
    assert_close([out], [wanted], 2 * torch.finfo(half).eps)
    with torch.autocast("cpu", dtype=half):
        cast_state = attention_keys(*x[1:3])
        cast_out = attention_queries(x[0], state, counts, local=x[3], gate=x[4])
    assert torch.equal(cast_state, state) and torch.equal(cast_out, out)


@pytest.mark.parametrize("rope", cases.ROPES)
@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_opcheck(kind, rope):
    options = {**cases.LENGTHS[kind], **cases.lengths_rope(rope)}
    q, k, v, local, gate = cases.lengths_inputs(kind, dtype=torch.float)
    torch.library.opcheck(attention_keys.default, (k, v), key_options(options))
    state = attention_keys(k, v, **key_options(options)).detach()
    counts, options = key_counts(k, options), query_options(options)
    if rope != "1d":
        options.update(local=local, gate=gate)
    arguments = (q, state.requires_grad_(), counts)
    torch.library.opcheck(attention_queries.default, arguments, options)


@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_opcheck_backward(kind):
    options = {**cases.LENGTHS[kind], **cases.lengths_rope("1d")}
    q, k, v, local, gate = (x.detach() for x in cases.lengths_inputs(kind, dtype=torch.float))
    state = attention_keys(k, v, **key_options(options))
    backward = torch.ops.mala.attention_keys_backward.default
    torch.library.opcheck(backward, (torch.ones_like(state), k, v), key_options(options))
    backward = torch.ops.mala.attention_queries_backward.default
    arguments = (torch.ones_like(local), q, state, key_counts(k, options))
    torch.library.opcheck(backward, arguments, query_options(options))
    tail = {"local": local, "gate": gate}
    torch.library.opcheck(backward, arguments, {**query_options(options), **tail})


def run_all(q, k, v, local, gate, counts):
    """Sizes, strides and types of all that the four operators return."""
    state = attention_keys(k, v)
    tail = {"local": local, "gate": gate}
    out = attention_queries(q, state, counts, **tail)
    found = [state, out, *torch.ops.mala.attention_keys_backward(state, k, v)]
    found += torch.ops.mala.attention_queries_backward(out, q, state, counts, **tail)
    found += torch.ops.mala.attention_queries_backward(out, q, state, counts)
    return [(x.shape, x.stride(), x.dtype) for x in found]


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_meta_and_fake_results_are_laid_out_as_real_ones(layout):
    real = [x.detach() for x in inputs(torch.bfloat16, layout)] + [torch.tensor([7, 7])]
    expected = run_all(*real)
    meta = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in real]
    assert run_all(*meta) == expected
    with FakeTensorMode() as mode:
        assert run_all(*(mode.from_tensor(x) for x in real)) == expected


def test_halves_compile_once_for_all_sizes():
    def loss(q, k, v, gate, counts):
        state = attention_keys(k, v, rope="1d") + attention_keys(k, v, rope="1d", rope_offset=5)
        out = attention_queries(q, state, 2 * counts, gate=gate, rope="1d", norm="balanced")
        return (out * out).sum()

    def call(batch, queries, keys):
        sizes = [(6, queries, 8), (3, keys, 8), (3, keys, 16), (6, queries, 16)]
        return [cases.heads(batch, *size) for size in sizes], (torch.full([batch], keys),)

    expect_one_compilation(loss, [call(2, 5, 7), call(3, 9, 4), call(4, 12, 17)])


K, V, Q = torch.zeros(2, 2, 6, 8), torch.zeros(2, 2, 6, 16), torch.zeros(2, 4, 5, 8)
STATE, COUNTS = torch.zeros(2, 2, 8 * 16 + 2 * 8 + 16), torch.tensor([6, 6])
ENDS = torch.tensor([0, 2, 5])

# What is called, and what the error says: what came, then what is needed.
WRONG_CALLS = {
    "types of keys": (lambda: attention_keys(K, V.double()), ["v is Double", "k is Float"]),
    "integers": (lambda: attention_keys(K.long(), V.long()), ["k is Long", "bfloat16"]),
    "devices of keys": (lambda: attention_keys(K, V.to("meta")), ["v is Float on meta"]),
    "rank of keys": (lambda: attention_keys(K[0], V), ["k has sizes", "four dimensions"]),
    "values": (lambda: attention_keys(K, V[:, :, :5]), ["v has 5 tokens but k has 6"]),
    "values, traced": (
        lambda: attention_keys(K.to("meta"), V[:, :1].to("meta")),
        [r"v has sizes \[2, 1, 6, 16\]", r"must be \[2, 2, 6, 16\]"],
    ),
    "no keys, traced": (
        lambda: attention_keys(K[:, :, :0].to("meta"), V[:, :, :0].to("meta")),
        [r"k has sizes \[2, 2, 0, 8\]; every size must be at least 1"],
    ),
    "no head size, traced": (
        lambda: attention_keys(K[..., :0].to("meta"), V.to("meta")),
        ["k has head size 0; it must be at least 8"],
    ),
    "no value size, traced": (
        lambda: attention_keys(K.to("meta"), V[..., :0].to("meta")),
        ["v has head size 0; it must be at least 8"],
    ),
    "head size": (lambda: attention_keys(K[..., :6], V), ["head size 6", "multiple of 8"]),
    "feature": (lambda: attention_keys(K, V, feature="elu"), ['feature is "elu"; valid are']),
    "rope": (lambda: attention_keys(K, V, rope="3d"), ['rope is "3d"; valid are']),
    "tables": (
        lambda: attention_keys(K, V, rope="table", rope_table=[K[0, 0, :, :4]] * 4),
        ["came with 4 tensors", r"give \[cos, sin\]"],
    ),
    "offset unasked": (lambda: attention_keys(K, V, rope_offset=2), ["rope_offset is given"]),
    "key lengths": (
        lambda: attention_keys(K, V, key_lengths=COUNTS[:1]),
        ["1 numbers for a batch of 2"],
    ),
    "no keys": (
        lambda: attention_keys(K, V, key_lengths=torch.tensor([6, 0])),
        [r"key_lengths\[1\] is 0; each must be 1 to 6"],
    ),
    "offsets": (
        lambda: attention_keys(K[:1], V[:1], cu_seqlens_k=ENDS),
        [r"cu_seqlens_k\[2\] is 5, the last", "tokens, 6"],
    ),
    "packed batch": (lambda: attention_keys(K, V, cu_seqlens_k=ENDS), ["batch of 2", "batch of 1"]),
    "widths": (
        lambda: attention_keys(K, V, rope="2d", grid_widths=torch.ones(2, 2).long()),
        [r"grid_widths has sizes \[2, 2\]; it must be \(images\)"],
    ),
    "state gradient": (
        lambda: torch.ops.mala.attention_keys_backward(STATE[..., :88], K, V),
        [r"state_gradient has sizes \[2, 2, 88\] but these inputs need \[2, 2, 160\]"],
    ),
    "type of state": (
        lambda: attention_queries(Q, STATE.double(), COUNTS),
        ["state is Double", "must be Float", "attention_keys"],
    ),
    "narrow state": (
        lambda: attention_queries(Q.double(), STATE, COUNTS),
        ["state is Float", "must be Double"],
    ),
    "device of state": (
        lambda: attention_queries(Q, STATE.to("meta"), COUNTS),
        ["on meta", "on cpu"],
    ),
    "rank of state": (lambda: attention_queries(Q, STATE[0], COUNTS), [r"sizes \[2, 160\]"]),
    "odd state": (
        lambda: attention_queries(Q, STATE[..., :150], COUNTS),
        [r"state has sizes \[2, 2, 150\]", "D = 8"],
    ),
    "state without values": (
        lambda: attention_queries(Q, STATE[..., :16], COUNTS),
        [r"state has sizes \[2, 2, 16\], the last of which is no D \* E", "E of 8 or more"],
    ),
    "state that is too small": (
        lambda: attention_queries(Q, STATE[..., :7], COUNTS),
        [r"state has sizes \[2, 2, 7\], the last of which is no D \* E", "D = 8"],
    ),
    "state of others": (
        lambda: attention_queries(Q, STATE[:1], COUNTS),
        [r"state has sizes \[1, 2, 160\] but q has 2 sequences"],
    ),
    "heads": (lambda: attention_queries(Q[:, :3], STATE, COUNTS), ["2 heads", "3"]),
    "heads, traced": (
        lambda: attention_queries(Q[:, :3].to("meta"), STATE.to("meta"), COUNTS.to("meta")),
        ["k has 2 heads but q has 3"],
    ),
    "no queries, traced": (
        lambda: attention_queries(Q[:, :, :0].to("meta"), STATE.to("meta"), COUNTS.to("meta")),
        [r"q has sizes \[2, 4, 0, 8\]; every size must be at least 1"],
    ),
    "no heads of keys, traced": (
        lambda: attention_queries(Q.to("meta"), STATE[:, :0].to("meta"), COUNTS.to("meta")),
        [r"state has sizes \[2, 0, 160\]; every size must be at least 1"],
    ),
    "type of counts": (
        lambda: attention_queries(Q, STATE, COUNTS.float()),
        ["key_lengths is Float"],
    ),
    "number of counts": (
        lambda: attention_queries(Q, STATE, COUNTS[:1]),
        ["key_lengths has 1 numbers for 2 sequences"],
    ),
    "empty count": (lambda: attention_queries(Q, STATE, COUNTS * 0), [r"key_lengths\[0\] is 0"]),
    "local": (lambda: attention_queries(Q, STATE, COUNTS, local=Q), ["local", "8", "16"]),
    "rule": (lambda: attention_queries(Q, STATE, COUNTS, rule="x"), ['rule is "x"; valid are']),
    "out gradient": (
        lambda: torch.ops.mala.attention_queries_backward(Q, Q, STATE, COUNTS),
        [r"out_gradient has sizes \[2, 4, 5, 8\]", "values of size 16"],
    ),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_call_is_explained(name):
    call, parts = WRONG_CALLS[name]
    with pytest.raises(RuntimeError, match=".*".join([r"\[mala::attention_\w+\] ", *parts])):
        call()
