"""The package on a GPU: what it gives on a CPU."""

import mala
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("torch finds no GPU", allow_module_level=True)

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


def leaves(*shapes, dtype):
    return [torch.rand(shape, dtype=dtype).requires_grad_() for shape in shapes]


def results(call, inputs, device):
    """The output and all gradients, on the CPU in float64."""
    inputs = [x.detach().to(device).requires_grad_() for x in inputs]
    out = call(*inputs)
    return [x.double().cpu() for x in (out, *torch.autograd.grad(out.float().sin().sum(), inputs))]


def assert_same(call, inputs):
    tolerance = TOLERANCE[inputs[0].dtype]
    for found, wanted in zip(results(call, inputs, "cuda"), results(call, inputs, "cpu")):
        scale = wanted.abs().max().clamp(min=1).item()
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("options", [
    {}, {"rope": (4, 9)}, {"causal": True, "rope": "1d"}, {"rule": "inline", "feature": "relu"},
    {"key_lengths": torch.tensor([36, 20])},
], ids=str)
def test_attention(dtype, options):
    inputs = leaves((2, 4, 36, 64), (2, 2, 36, 64), (2, 2, 36, 64), (2, 4, 36, 64), (2, 4, 36, 64),
                    dtype=dtype)
    assert_same(lambda q, k, v, local, gate: mala.attention(q, k, v, local=local, gate=gate, **options),
                inputs)


def test_chunks_and_steps_go_on_from_a_state():
    q, k, v = (torch.rand(2, 2, 40, 64, device="cuda") for _ in range(3))
    whole = mala.attention(q, k, v, causal=True, rope="1d")
    parts, state = [], None
    for begin, end in ((0, 25), (25, 38)):
        out, state = mala.attention_chunk(*(x[:, :, begin:end] for x in (q, k, v)), state, rope="1d")
        parts.append(out)
    for i in (38, 39):
        out, state = mala.attention_step(*(x[:, :, i : i + 1] for x in (q, k, v)), state, rope="1d")
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 2), whole, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mixers", ["mala", "mala,softmax,linear,inline"])
def test_model(mixers):
    torch.manual_seed(0)
    model = mala.create_model("mavit_n", mixers=mixers).eval()
    images = torch.randn(2, 3, 32, 32)
    wanted = model(images)
    wanted.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        found = model.cuda()(images.cuda())
        found.square().sum().backward()
    finally:
        torch.backends.cudnn.allow_tf32 = before
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-3, atol=1e-4)
    for parameter, gradient in zip(model.parameters(), gradients):
        torch.testing.assert_close(parameter.grad.cpu(), gradient, rtol=1e-2,
                                   atol=1e-3 * gradient.abs().max().clamp(min=1e-3).item())


def test_autocast_trains_and_compiles():
    model = mala.create_model("mavit_n").cuda()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.autocast("cuda", torch.bfloat16):
        loss = compiled(torch.randn(4, 3, 32, 32, device="cuda")).float().square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_graph_of_a_model():
    model = mala.create_model("mavit_n").cuda().eval()
    images = torch.randn(2, 3, 32, 32, device="cuda")
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(images)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = model(images)
        images.copy_(torch.randn_like(images))
        graph.replay()
        torch.testing.assert_close(logits, model(images), rtol=1e-3, atol=1e-4)


def test_mixed_devices_are_refused():
    x = torch.rand(1, 1, 8, 8)
    with pytest.raises(ValueError, match="is Float on c.* but .* is Float on c"):
        mala.attention(x.cuda(), x, x)
