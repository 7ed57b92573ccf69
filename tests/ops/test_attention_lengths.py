"""Key counts, packed sequences and grouped heads in torch.ops.mala.attention."""

import cases
import formula
import pytest
import torch
from compiling import expect_one_compilation, results_on
from torch._subclasses.fake_tensor import FakeTensorMode

attention = torch.ops.mala.attention
NAMES = ["q", "k", "v", "local", "gate"]

# Rounding of the kernels and of the formula, relative to the largest value.
TOLERANCE = {torch.float: 5e-5, torch.double: 1e-11}


def expected(inputs, lengths, options):
    """out and the gradients of its sine, in double, by a loop over sequences."""
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    tail = dict(zip(NAMES[3:], doubles[3:]))
    out = formula.attention_by_sequence(*doubles[:3], **tail, lengths=lengths, **options)
    return [out, *torch.autograd.grad(out.sin().sum(), doubles)]


def actual(inputs, lengths, options):
    tail = dict(zip(NAMES[3:], inputs[3:]))
    out = attention(*inputs[:3], **tail, **lengths, **options)
    return [out, *torch.autograd.grad(out.sin().sum(), inputs)]


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("rope", cases.ROPES)
@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_equals_a_loop_over_sequences(device, kind, rope, kv_heads):
    lengths, rope_options = cases.LENGTHS[kind], cases.lengths_rope(rope)
    for i, norm in enumerate(cases.NORMS):
        options = {**rope_options, "norm": norm, "rule": cases.RULES[(i + kv_heads) % 3]}
        for dtype in cases.exact_types(device):
            inputs = cases.lengths_inputs(kind, kv_heads, dtype)
            ours, wanted = (f(inputs, lengths, options) for f in (actual, expected))
            for name, x, y in zip(["out", *NAMES], ours, wanted):
                assert x.shape == y.shape
                error = (x - y).abs().max() / y.abs().max()
                assert error < TOLERANCE[dtype], f"{name}, {norm}: relative error {error:.1e}"


@pytest.mark.parametrize("kind", cases.LENGTHS)
@pytest.mark.parametrize("rope", cases.ROPES)
def test_gradcheck(kind, rope):
    options = {**cases.LENGTHS[kind], **cases.lengths_rope(rope), "norm": "balanced"}

    def run(q, k, v, local, gate):
        return attention(q, k, v, local=local, gate=gate, **options)

    torch.autograd.gradcheck(run, cases.lengths_inputs(kind), fast_mode=True)


@pytest.mark.parametrize("kind", ["counted", "packed"])
def test_type_and_stride_of_lengths_change_no_bit(device, kind):
    inputs = cases.lengths_inputs(kind, dtype=torch.float)
    lengths = cases.LENGTHS[kind]
    widths = torch.tensor([2, 1, 3], device="cpu")
    options = {"rope": "2d", "grid_widths": widths}
    results = actual(inputs, lengths, options)

    short = {name: x.int() for name, x in lengths.items()}
    strided = {name: torch.stack([x, x * 0 - 9], dim=1)[:, 0] for name, x in lengths.items()}
    pairs = {"rope": "2d", "grid_widths": torch.stack([widths, widths], dim=1).int()}
    for other in (actual(inputs, short, pairs), actual(inputs, strided, options)):
        assert all(torch.equal(x, y) for x, y in zip(results, other))


def test_keys_beyond_the_count_are_never_read(device):
    for dtype in cases.exact_types(device):
        q, k, v, local, gate = cases.lengths_inputs("counted", dtype=dtype)
        lengths = cases.LENGTHS["counted"]
        counts = lengths["key_lengths"].to(device).view(-1, 1, 1, 1)
        beyond = torch.arange(k.shape[2]).view(-1, 1) >= counts
        spoiled = [x.detach().masked_fill(beyond, float("nan")).requires_grad_() for x in (k, v)]
        clean = actual([q, k, v, local, gate], lengths, {"rope": "1d"})
        results = actual([q, *spoiled, local, gate], lengths, {"rope": "1d"})
        assert all(torch.equal(x, y) for x, y in zip(clean, results))
        for gradient in results[2:4]:
            assert gradient[beyond.expand(gradient.shape)].eq(0).all()


def test_changed_lengths_are_noticed(device):
    inputs = cases.lengths_inputs("packed", dtype=torch.float)
    lengths = {name: x.clone() for name, x in cases.LENGTHS["packed"].items()}
    out = attention(*inputs[:3], **lengths)
    lengths["cu_seqlens_k"][1] += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_autocast_leaves_lengths_alone(device):
    inputs = [x.detach() for x in cases.lengths_inputs("packed", dtype=torch.bfloat16)]
    lengths = cases.LENGTHS["packed"]
    with torch.autocast(device, dtype=torch.bfloat16):
        out = attention(*inputs[:3], **lengths)
    assert torch.equal(out, attention(*inputs[:3], **lengths))


@pytest.mark.parametrize("kind", cases.LENGTHS)
@pytest.mark.parametrize("name", ["attention_forward", "attention_stateless", "attention"])
def test_opcheck(device, name, kind):
    q, k, v, local, gate = cases.lengths_inputs(kind, dtype=torch.float)
    options = {"local": local, "gate": gate, **cases.LENGTHS[kind], **cases.lengths_rope("2d")}
    with results_on(device):
        torch.library.opcheck(getattr(torch.ops.mala, name).default, (q, k, v), options)


@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_opcheck_backward(device, kind):
    q, k, v, _, _ = (x.detach() for x in cases.lengths_inputs(kind, dtype=torch.float))
    options = {**cases.LENGTHS[kind], **cases.lengths_rope("1d")}
    out, state = torch.ops.mala.attention_forward(q, k, v, **options)
    op = torch.ops.mala.attention_backward.default
    with results_on(device):
        torch.library.opcheck(op, (torch.ones_like(out), state, q, k, v), options)


def layouts(inputs, lengths):
    """Sizes and strides of everything that forward and backward return."""
    q, k, v, local, gate = inputs
    options = {"local": local, "gate": gate, **lengths}
    out, state = torch.ops.mala.attention_forward(q, k, v, **options)
    gradients = torch.ops.mala.attention_backward(out, state, q, k, v, **options)
    return [(x.shape, x.stride(), x.dtype) for x in (out, state, *gradients)]


@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_tracing_for_gpus_needs_none(kind):
    """Tokens on a GPU and lengths on the CPU, both without memory."""
    expected = layouts([x.detach() for x in cases.lengths_inputs(kind, dtype=torch.float)],
                       cases.LENGTHS[kind])
    with FakeTensorMode() as mode, torch.device("cuda"), results_on("cuda"):
        tokens = [torch.empty(x.shape) for x in cases.lengths_inputs(kind)]
        lengths = {name: mode.from_tensor(x) for name, x in cases.LENGTHS[kind].items()}
        assert layouts(tokens, lengths) == expected
        out, state = torch.ops.mala.attention_forward(*tokens[:3], **lengths)
        assert (out.device.type, state.device.type) == ("cuda", "cuda")


@pytest.mark.parametrize("kind", cases.LENGTHS)
def test_meta_and_fake_results_are_laid_out_as_real_ones(kind):
    inputs = [x.detach() for x in cases.lengths_inputs(kind)]
    lengths = cases.LENGTHS[kind]
    real = layouts(inputs, lengths)
    assert real[1][0] == (3, 2, 8 * 16 + 2 * 8 + 16)  # a state for each sequence and kv head
    meta = [x.to("meta") for x in inputs]
    assert layouts(meta, lengths) == real
    assert layouts(meta, {name: x.to("meta") for name, x in lengths.items()}) == real
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in inputs]
        assert layouts(fake, {name: mode.from_tensor(x) for name, x in lengths.items()}) == real


def test_packed_images_compile_once_for_all_sizes():
    def loss(q, k, v, sizes, widths):
        ends = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
        options = {"rope": "2d", "grid_widths": widths, "norm": "balanced"}
        out = attention(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, **options)
        return (out * out).sum()

    def call(*images):
        sizes = torch.tensor([height * width for height, width in images])
        tokens = int(sizes.sum())
        leaves = [cases.heads(1, n, tokens, 8) for n in (6, 3, 3)]
        return leaves, (sizes, torch.tensor([width for _, width in images]))

    three, four = [(1, 5), (3, 3), (2, 2)], [(4, 4), (1, 2), (3, 1), (2, 6)]
    expect_one_compilation(loss, [call((2, 3), (4, 2)), call(*three), call(*four)])


def test_key_counts_compile_once_for_all_sizes():
    def loss(q, k, v, key_lengths):
        out = attention(q, k, v, key_lengths=key_lengths, rope="1d")
        return (out * out).sum()

    def call(*counts):
        keys = max(counts) + 1
        leaves = [cases.heads(len(counts), n, m, 8) for n, m in ((6, 5), (3, keys), (3, keys))]
        return leaves, (torch.tensor(counts, dtype=torch.int32),)

    expect_one_compilation(loss, [call(2, 3), call(5, 1, 4), call(7, 6, 2, 3)])


def test_meta_checks_groups():
    q, k = torch.empty(1, 4, 6, 8, device="meta"), torch.empty(1, 3, 6, 8, device="meta")
    with pytest.raises(RuntimeError, match="k has 3 heads but q has 4.*must divide those of q"):
        attention(q, k, k)
    with pytest.raises(RuntimeError, match=r"k has sizes .*every size must be at least 1"):
        attention(q, k[:, :0], k[:, :0])
