"""What only a GPU has: graphs, streams, several devices, and tensors of gigabytes."""

import threading

import cases
import pytest
import torch

attention = torch.ops.mala.attention
TOKENS, DIM, VALUE_DIM = 300, 32, 48
GIB = 2**30

# Rounding of float32 on either device, relative to the largest value.
FLOAT_TOLERANCE = 5e-5
# A few roundings of bfloat16.
NARROW_TOLERANCE = 2e-2
# float16 has eight times the digits of bfloat16.
TOLERANCES = {
    torch.float: FLOAT_TOLERANCE,
    torch.bfloat16: NARROW_TOLERANCE,
    torch.float16: NARROW_TOLERANCE / 8,
}


def tokens(dtype=torch.float, requires_grad=True, batch=2):
    """q, k, v, local, gate; two heads of keys for four of queries."""
    sizes = [(4, DIM), (2, DIM), (2, VALUE_DIM), (4, VALUE_DIM), (4, VALUE_DIM)]
    x = [cases.heads(batch, heads, TOKENS, dim, dtype) for heads, dim in sizes]
    return [y.requires_grad_(requires_grad) for y in x]


def forward(inputs, **options):
    q, k, v, local, gate = inputs
    return attention(q, k, v, local=local, gate=gate, rope="1d", **options)


def both(inputs, **options):
    """out, and all gradients of the sum of its sine."""
    out = forward(inputs, **options)
    return [out.detach(), *torch.autograd.grad(out.sin().sum(), inputs)]


def assert_same_bits(results, expected):
    assert all(torch.equal(x, y) for x, y in zip(results, expected, strict=True))


def assert_near(results, expected, tolerance):
    for x, y in zip(results, expected, strict=True):
        error = (x.double() - y.double()).abs().max() / y.double().abs().max()
        assert error < tolerance, f"relative error {error:.1e}"


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16, torch.float16])
def test_equals_the_cpu(gpu, dtype):
    inputs = tokens(dtype)
    on_cpu = [x.detach().cpu().requires_grad_() for x in inputs]
    with torch.device("cpu"):
        expected = [x.to("cuda") for x in both(on_cpu, norm="balanced")]
    assert_near(both(inputs, norm="balanced"), expected, TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16, torch.float16])
def test_same_bits_where_no_gradient_follows(gpu, dtype):
    heads = [cases.heads(4, 6, 256, 64, dtype).requires_grad_() for _ in range(5)]  # one kernel's
    for inputs in (tokens(dtype), heads):
        expected = forward(inputs)
        with torch.no_grad():
            assert torch.equal(forward(inputs), expected)


def test_every_run_has_the_same_bits(gpu):
    inputs = tokens(torch.bfloat16)
    expected = both(inputs)
    for _ in range(10):
        assert_same_bits(both(inputs), expected)


LENGTHS = {
    "whole": {},
    "counted": {"key_lengths": torch.tensor([TOKENS, 7])},
    "packed": {
        "cu_seqlens_q": torch.tensor([0, 1, 70, TOKENS]),
        "cu_seqlens_k": torch.tensor([0, 200, 203, TOKENS]),
    },
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_a_graph_replays_the_call(gpu, kind):
    """A wait for the GPU, or memory that is not torch's, would end the capture with an error."""
    lengths = {name: x.clone() for name, x in LENGTHS[kind].items()}
    inputs = tokens(batch=1 if kind == "packed" else 2)
    both(inputs, **lengths)  # what torch sets up once, such as its own kernels
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = both(inputs, **lengths)

    for x in lengths.values():  # the graph keeps the numbers it was made with
        x.zero_()
    for _ in range(3):
        fresh = tokens(requires_grad=False, batch=inputs[0].shape[0])
        with torch.no_grad():
            for x, y in zip(inputs, fresh):
                x.copy_(y)
        graph.replay()
        assert_same_bits(captured, both(inputs, **LENGTHS[kind]))


def busy(stream):
    """Work that holds a stream up for some milliseconds."""
    with torch.cuda.stream(stream):
        x = torch.ones(4096, 4096)
        for _ in range(8):
            x = x @ x * 0
    return x


def test_calls_run_on_the_current_stream(gpu):
    """Inputs are written late on a stream of their own; a call on another would read the old."""
    late = tokens(requires_grad=False)
    expected = forward(late)
    inputs = [torch.zeros_like(x) for x in late]
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    busy(stream)
    with torch.cuda.stream(stream):
        for x, y in zip(inputs, late):
            x.copy_(y)
        out = forward(inputs)
    stream.synchronize()
    assert torch.equal(out, expected)


def test_two_streams_do_not_disturb_each_other(gpu):
    calls = [tokens() for _ in range(2)]
    expected = [both(inputs) for inputs in calls]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    results = [[], []]
    for _ in range(20):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                results[i].append(both(calls[i]))
    torch.cuda.synchronize()
    for runs, right in zip(results, expected):
        for run in runs:
            assert_same_bits(run, right)


def test_threads_do_not_disturb_each_other(gpu):
    calls = [tokens() for _ in range(4)]
    expected = [both(inputs) for inputs in calls]
    results = [None] * len(calls)

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            results[i] = [both(calls[i]) for _ in range(10)]
            torch.cuda.current_stream().synchronize()

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=[i]) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for runs, right in zip(results, expected):
        assert runs is not None
        for run in runs:
            assert_same_bits(run, right)


def test_tensors_choose_the_device(gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU alone")
    inputs = tokens()
    elsewhere = [x.detach().to("cuda:1").requires_grad_() for x in inputs]
    assert torch.cuda.current_device() == 0
    results = both(elsewhere)
    assert torch.cuda.current_device() == 0
    assert all(x.device.index == 1 for x in results)
    assert_near([x.to("cuda:0") for x in results], both(inputs), FLOAT_TOLERANCE)


def need_memory(bytes):
    free, _ = torch.cuda.mem_get_info()
    if free < bytes:
        pytest.skip(f"{free / GIB:.0f} GiB of GPU memory are free, {bytes / GIB:.0f} are needed")


def test_more_elements_than_32_bits_count(gpu):
    """A block of tokens again and again: all means stay those of one block, so that each copy of it
    has the results of one block alone. Without RoPE, as positions would tell copies apart."""
    need_memory(60 * GIB)
    block, dim = 4096, 64
    copies = 2**31 // (block * dim) + 3
    one = [cases.heads(1, 1, block, dim, torch.bfloat16) for _ in range(4)]
    many = [x.repeat(1, 1, copies, 1) for x in one]
    assert many[0].numel() > 2**31

    def run(q, k, v, out_gradient):
        inputs = [x.requires_grad_() for x in (q, k, v)]
        out = attention(*inputs)
        return [out.detach(), *torch.autograd.grad(out, inputs, out_gradient)]

    for result, wanted in zip(run(*many), run(*one), strict=True):
        for i in (0, copies // 2, copies - 1):
            part = result[:, :, i * block : (i + 1) * block]
            assert_near([part], [wanted], NARROW_TOLERANCE)
    torch.cuda.empty_cache()
