"""The causal form on a GPU, against the same operators in float64 on the CPU."""

import random

import pytest
import torch

pytestmark = pytest.mark.usefixtures("gpu")

attention_chunk = torch.ops.mala.attention_chunk
attention_step = torch.ops.mala.attention_step
HALVES = [torch.bfloat16, torch.float16]
CALLS = 300
# Of narrow types: twice the error of float32 arithmetic that is rounded once. float32 goes through
# tensor cores in two parts, whose sums are cut off and not rounded.
ALLOWED, FLOAT_ERROR = 2.0, 1e-4
# What gradients that cancel entirely may be, beside the gradient that came.
NOTHING = {torch.bfloat16: 2**-8, torch.float16: 1e-4, torch.float: 1e-5}
# Norms other than the balanced one take s off its scores, which tensor cores know to 11 bits: few
# tokens lose digits by it, many average it out.
UNBALANCED = 2**-7


def draw_options(draw, dim):
    rope = draw.choice(["none", "1d", "1d", "2d"] if dim >= 16 else ["none", "1d"])
    options = {
        "rule": draw.choice(["mala", "mala", "linear", "inline"]),
        "norm": draw.choice([None, None, "published", "balanced"]),
        "feature": draw.choice(["elu1", "elu1", "relu", "exp"]),
        "key_mean": draw.choice([True, True, False]),
        "rope": rope,
    }
    if rope == "2d":
        options["grid_width"] = [7, 7]
    if rope == "1d" and draw.random() < 0.3:
        options["rope_offset"] = [300, 300]
    return options


def draw_sizes(draw):
    """Sequences, heads of keys, queries for each, tokens, head sizes."""
    dims = [64, 64, 64, 8, 16, 40, 72, 96, 128, 160, 256]
    dim = draw.choice(dims)
    value_dim = draw.choice([dim, dim, draw.choice(dims)])
    tokens = draw.choice([1, 2, 7, 63, 64, 65, 128, 129, 300, 513, 700])
    if max(dim, value_dim) > 128:
        tokens = min(tokens, 130)  # the CPU takes its time
    return draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([1, 1, 3]), tokens, dim, value_dim


def draw_lengths(draw, batch, tokens):
    """The sequences' lengths, and the chunks in which they come."""
    kind = draw.choice(["plain", "plain", "chunks", "counts", "packed"])
    if kind == "chunks" and tokens > 1:
        first = draw.randint(1, tokens - 1)
        return {}, [first, tokens - first], batch
    if kind == "counts":
        counts = [draw.randint(1, tokens) for _ in range(batch)]
        return {"key_lengths": torch.tensor(counts, device="cpu")}, [tokens], batch
    if kind == "packed" and batch == 1:
        cuts = sorted({0, tokens, *(draw.randint(1, tokens) for _ in range(3))})
        return {"cu_seqlens_q": torch.tensor(cuts, device="cpu")}, [tokens], len(cuts) - 1
    return {}, [tokens], batch


def outcome(inputs, gradients, options, chunks, device, dtype):
    """out, the state and all gradients, and the count."""
    inputs = [x.to(device, dtype).requires_grad_() for x in inputs]
    outs, state, count = [], None, None
    for q, k, v, *tail in zip(*(x.split(chunks, dim=2) for x in inputs)):
        tail = dict(zip(("local", "gate"), tail))
        out, state, count = attention_chunk(q, k, v, **tail, state=state, count=count, **options)
        outs.append(out)
    out = torch.cat(outs, dim=2)
    of_out, of_state = (x.to(device) for x in gradients)
    from_inputs = torch.autograd.grad([out, state], inputs, [of_out.to(dtype), of_state])
    return [out.detach(), state.detach(), *from_inputs], count


def typical(x):
    return x.double().square().mean().sqrt().item()


def is_balanced(options):
    default = "balanced" if options["rule"] == "mala" else "published"
    return (options["norm"] or default) == "balanced"


def check_call(draw, number):
    batch, heads, group, tokens, dim, value_dim = draw_sizes(draw)
    dtype = draw.choice([torch.bfloat16, torch.bfloat16, torch.float16, torch.float])
    options = draw_options(draw, dim)
    lengths, chunks, sequences = draw_lengths(draw, batch, tokens)
    shapes = [(heads * group, dim), (heads, dim), (heads, value_dim)]
    shapes += [(heads * group, value_dim)] * (2 if draw.random() < 0.3 else 0)
    inputs = [torch.randn(batch, h, tokens, d, device="cpu").to(dtype) for h, d in shapes]
    of_out = torch.randn(batch, heads * group, tokens, value_dim, device="cpu").to(dtype)
    size = dim * value_dim + 2 * dim + value_dim
    of_state = 0.01 * torch.randn(sequences, heads, size, dtype=torch.double, device="cpu")
    options |= lengths
    call = inputs, (of_out, of_state), options, chunks
    exact, count = outcome(*call, "cpu", torch.double)
    simple, _ = outcome(*call, "cpu", torch.float)
    ours, count_of_ours = outcome(*call, "cuda", dtype)
    about = f"call {number}: {dtype}, {[tuple(x.shape) for x in inputs]}, {chunks}, {options}"
    assert torch.equal(count_of_ours.cpu(), count), about
    names = ("out", "state", "dq", "dk", "dv", "dlocal", "dgate")
    for name, actual, plain, right in zip(names, ours, simple, exact):
        error = typical(actual.cpu().double() - right)
        if name == "state" or dtype == torch.float:
            allowed = (2**-12 if dtype == torch.bfloat16 else FLOAT_ERROR) * typical(right)
        else:
            allowed = ALLOWED * typical(plain.to(dtype).double() - right)
        allowed += NOTHING[dtype] * typical(of_out) if name[0] == "d" else 0
        if dtype == torch.bfloat16 and not is_balanced(options):
            allowed += UNBALANCED * typical(right)
        assert error <= allowed, f"{name} is off by {error:.1e}, {allowed:.1e} allowed; {about}"


def test_random_calls():
    draw = random.Random(20260101)
    for number in range(CALLS):
        check_call(draw, number)


def tokens(count, dim=64, dtype=torch.bfloat16, batch=1, heads=2):
    return [torch.randn(batch, heads, count, dim).to(dtype) for _ in range(3)]


def test_same_bits_each_time():
    inputs = tokens(1000, batch=2)
    gradients = torch.randn(2, 2, 1000, 64), torch.randn(2, 2, 64 * 67, dtype=torch.double)
    call = inputs, gradients, {"rope": "1d"}, [400, 600], "cuda", torch.bfloat16
    first, _ = outcome(*call)
    for _ in range(9):
        assert all(torch.equal(a, b) for a, b in zip(outcome(*call)[0], first))


@pytest.mark.parametrize("dtype", [torch.float, *HALVES])
@pytest.mark.parametrize("count", [60, 1000, 5000])
def test_a_whole_text_is_a_chunk_without_states(dtype, count):
    inputs = [x.requires_grad_() for x in tokens(count, dtype=dtype)]
    whole = torch.ops.mala.attention(*inputs, rope="1d", causal=True)
    out, _, _ = attention_chunk(*inputs, rope="1d")
    assert torch.equal(whole, out)
    of_whole, of_out = (torch.autograd.grad(x.sum(), inputs) for x in (whole, out))
    assert all(torch.equal(a, b) for a, b in zip(of_whole, of_out))


@pytest.mark.parametrize("dtype", [torch.float, *HALVES])
@pytest.mark.parametrize("sizes", [(64, 64, 1), (40, 24, 2), (128, 256, 1), (256, 8, 3)])
@pytest.mark.parametrize("rope", ["none", "1d", "2d"])
def test_token_by_token(dtype, sizes, rope):
    dim, value_dim, group = sizes
    shapes = [(2 * group, dim), (2, dim), (2, value_dim), *[(2 * group, value_dim)] * 2]
    inputs = [torch.randn(3, h, 20, d).to(dtype) for h, d in shapes]
    options = {"rope": rope, "grid_width": [7, 7] if rope == "2d" else [0, 0]}
    q, k, v, local, gate = (x.cpu().double() for x in inputs)
    expected, end, _ = attention_chunk(q, k, v, local=local, gate=gate, **options)
    size = dim * value_dim + 2 * dim + value_dim
    state, count = torch.zeros(3, 2, size, dtype=torch.double), torch.zeros(3, dtype=torch.long)
    for n in range(20):
        q, k, v, local, gate = (x[:, :, n : n + 1] for x in inputs)
        out = attention_step(q, k, v, state, count, local=local, gate=gate, **options)
        right = expected[:, :, n : n + 1]
        allowed = 4e-7 * typical(right) if dtype == torch.float else 0  # exp and cos in float32
        allowed += ALLOWED * typical(right.to(dtype) - right)
        assert typical(out.cpu().double() - right) <= allowed
    assert count.tolist() == [20] * 3
    torch.testing.assert_close(state.cpu(), end, rtol=1e-4, atol=1e-4)


def test_more_heads_than_other_dimensions_of_a_grid_have():
    heads = 65536 + 3
    q, k, v = (torch.randn(1, heads, 1, 8) for _ in range(3))
    state, count = torch.zeros(1, heads, 88, dtype=torch.double), torch.zeros(1, dtype=torch.long)
    out = attention_step(q, k, v, state, count)
    torch.testing.assert_close(out, v)  # a first token sees itself alone


def test_a_graph_decodes_on():
    """Counts lie on the device, so that each replay is the next token."""
    q, k, v = (x.clone() for x in tokens(1))
    state, count = torch.zeros(1, 2, 64 * 67, dtype=torch.double), torch.zeros(1, dtype=torch.long)
    attention_step(q, k, v, state.clone(), count.clone(), rope="1d")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention_step(q, k, v, state, count, rope="1d")
    state.zero_(), count.zero_()
    text = tokens(30)
    expected, _, _ = attention_chunk(*(x.cpu().double() for x in text), rope="1d")
    for n in range(30):
        for to, x in zip((q, k, v), text):
            to.copy_(x[:, :, n : n + 1])
        graph.replay()
        right = expected[:, :, n : n + 1]
        assert typical(out.cpu().double() - right) <= 0.01 * typical(right)
    assert count.tolist() == [30]


def test_graph_of_a_whole_text():
    text = tokens(700)
    attention_chunk(*text, rope="1d")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, state, count = attention_chunk(*text, rope="1d")
    for x in text:
        x.normal_()
    graph.replay()
    expected = attention_chunk(*text, rope="1d")
    assert all(torch.equal(a, b) for a, b in zip((out, state, count), expected))


def test_a_graph_of_a_chunk_with_a_state_and_its_gradients():
    """A count on the CPU is not waited for, and stays there."""
    _, state, count = attention_chunk(*tokens(100), rope="1d")
    text = [x.requires_grad_() for x in tokens(300)]
    inputs = [*text, state.requires_grad_()]

    def run(count):
        out, after, count = attention_chunk(*text, rope="1d", state=state, count=count)
        return [out, after, *torch.autograd.grad(out.sum() + after.sum(), inputs)], count

    run(count.cpu())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results, count_after = run(torch.tensor([100], device="cpu"))
    assert count_after.device.type == "cpu" and count_after.tolist() == [400]
    with torch.no_grad():
        for x in text:
            x.normal_()
    graph.replay()
    expected, _ = run(count)
    assert all(torch.equal(a, b) for a, b in zip(results, expected))


@pytest.mark.parametrize(
    "lengths, keys",
    [
        ({}, [30, 30]),
        ({"key_lengths": [7, 30]}, [7, 30]),
        ({"cu_seqlens_q": [0, 11, 30]}, [11, 19]),
    ],
)
def test_a_count_on_the_cpu_is_the_same_number(lengths, keys):
    batch = 1 if "cu_seqlens_q" in lengths else 2
    text = [torch.randn(batch, 2, 30, 64, dtype=torch.bfloat16) for _ in range(3)]
    lengths = {name: torch.tensor(x, device="cpu") for name, x in lengths.items()}
    state = torch.zeros(2, 2, 64 * 67, dtype=torch.double)
    for device in ("cpu", "cuda"):
        count = torch.zeros(2, dtype=torch.long, device=device)
        _, _, after = attention_chunk(*text, **lengths, state=state, count=count)
        assert after.device.type == device and after.tolist() == keys


def test_on_two_streams():
    text = tokens(3000)
    expected, _, _ = attention_chunk(*text, rope="1d")
    torch.cuda.synchronize()
    outs = []
    for stream in [torch.cuda.Stream() for _ in range(2)]:
        with torch.cuda.stream(stream):
            outs += [attention_chunk(*text, rope="1d")[0] for _ in range(5)]
    torch.cuda.synchronize()
    assert all(torch.equal(out, expected) for out in outs)


@pytest.mark.parametrize("place", [0, 5, 63, 64, 130])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_nan_reaches_no_earlier_token(which, place):
    text = tokens(200)
    expected, _, _ = attention_chunk(*text, rope="1d")
    text[which][:, :, place, 3] = float("nan")
    out, _, _ = attention_chunk(*text, rope="1d")
    assert torch.equal(out[:, :, :place], expected[:, :, :place])
    assert out[:, :, place].isnan().any()
    if which > 0:
        assert out[:, :, place:].isnan().any(dim=3).all()


def test_keys_beyond_the_count_are_not_read():
    q, k, v = tokens(150)
    counts = torch.tensor([70], device="cpu")
    expected = attention_chunk(q, k, v, rope="1d", key_lengths=counts)
    k[:, :, 70:], v[:, :, 70:] = float("nan"), float("inf")
    actual = attention_chunk(q, k, v, rope="1d", key_lengths=counts)
    assert all(torch.equal(a, b) for a, b in zip(actual, expected))


def test_a_million_tokens():
    """As near to float64 at the end as at the beginning."""
    count = 2**20
    text = [torch.randn(1, 1, count, 8) for _ in range(3)]
    out, _, _ = attention_chunk(*text, rope="1d")
    exact, _, _ = attention_chunk(*(x.cpu().double() for x in text), rope="1d")
    errors = (out.cpu().double() - exact).square().mean(dim=(0, 1, 3)).sqrt()
    size = exact.square().mean(dim=(0, 1, 3)).sqrt()
    near = [(errors[a:b].mean() / size[a:b].mean()).item() for a, b in ((1000, 2000), (-1000, None))]
    assert near[1] <= 10 * near[0] and near[1] < 1e-4, near


def test_a_count_that_is_none_makes_nan():
    q, k, v = tokens(1)
    state, count = torch.zeros(1, 2, 64 * 67, dtype=torch.double), torch.tensor([-1])
    assert attention_step(q, k, v, state, count, rope="1d").isnan().all()


def test_a_table_that_is_too_short():
    q, k, v = tokens(1)
    state, count = torch.zeros(1, 2, 64 * 67, dtype=torch.double), torch.tensor([4])
    table = [torch.ones(4, 32), torch.zeros(4, 32)]
    out = attention_step(q, k, v, state, count, rope="table", rope_table=table)
    assert out.isnan().all()


def test_doubles_are_refused():
    with pytest.raises(NotImplementedError, match="Double on cuda:0.*float32, bfloat16"):
        attention_chunk(*tokens(3, dtype=torch.double))
