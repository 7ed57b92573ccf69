"""torch.compile without graph breaks, torch.export, and models wrapped for several processes."""

import mala
import pytest
import torch
from mala.models import Mavit, MavitConfig
from torch._dynamo.testing import CompileCounterWithBackend


def compiled(function, **options):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, backend=counter, fullgraph=True, **options), counter


def results(function, leaves, *others):
    """The result and the gradients of all leaves."""
    leaves = [x.detach().requires_grad_() for x in leaves]
    out = function(*leaves, *others)
    return [out, *torch.autograd.grad(out.square().sum(), leaves)]


def small(**options):
    """A MAViT of two blocks, since compilers take their time for each."""
    return Mavit(MavitConfig((16, 16), (1, 1), (2, 1), ("mala", "softmax"), projection=24,
                             num_classes=4, stem_stride=2, **options))


FORMS = {
    "plain": {},
    "line": {"rope": "1d", "norm": "balanced"},
    "causal": {"rope": "1d", "causal": True},
    "grid": {"rope": "grid"},
}


@pytest.mark.parametrize("form", FORMS)
def test_operator_compiles_once_for_all_sizes(form):
    options = FORMS[form]

    def call(q, k, v, gate, rows, columns):
        rope = (rows, columns) if options.get("rope") == "grid" else options.get("rope")
        return mala.attention(q, k, v, gate=gate, **{**options, "rope": rope})

    run, counter = compiled(call, dynamic=True)
    compilations = []
    for batch, rows, columns in ((2, 3, 4), (3, 6, 2), (4, 6, 7)):
        # Sizes that agree by chance would be compiled as one: five heads are like nothing else.
        x = [torch.rand(batch, 5, rows * columns, 8) for _ in range(4)]
        torch.testing.assert_close(results(run, x, rows, columns), results(call, x, rows, columns))
        compilations.append(counter.frame_count)
    assert compilations == compilations[:1] * 3


def test_chunks_compile():
    def call(q, k, v):
        out, state = mala.attention_chunk(q[:, :, :5], k[:, :, :5], v[:, :, :5])
        return mala.attention_chunk(q[:, :, 5:], k[:, :, 5:], v[:, :, 5:], state)[0]

    x = [torch.rand(2, 2, 9, 8) for _ in range(3)]
    torch.testing.assert_close(results(compiled(call)[0], x), results(call, x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_and_model_compile(dynamic):
    sequence = mala.nn.MalaAttention(16, 2, rope="1d", gate=True)
    picture = mala.nn.MalaAttention2d(16, 2)
    model = small()
    cases = [(sequence, lambda n: torch.randn(n, 4 + n, 16)),
             (picture, lambda n: torch.randn(n, 16, 3 + n, 5)),
             (model, lambda n: torch.randn(n, 3, 8 * n, 24))]
    for module, make in cases:
        run, _ = compiled(module, dynamic=dynamic)
        for n in (2, 3) if dynamic else (2,):
            x = make(n)
            torch.testing.assert_close(results(run, [x]), results(module, [x]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer, sizes", [
    (mala.nn.MalaAttention(16, 2, rope="1d"), [(2, 6, 16), (2, 9, 16)]),
    (mala.nn.MalaAttention(16, 2, causal=True), [(2, 6, 16), (3, 6, 16)]),
    (mala.nn.Block(16, 2, 24), [(2, 16, 4, 4)]),
], ids=["sequence", "causal", "block"])
def test_inductor_compiles_layers_for_any_size(layer, sizes):
    """Forward and backward; the second size makes the compiler take it as one that changes."""
    torch._dynamo.reset()
    run = torch.compile(layer, fullgraph=True)
    for size in sizes:
        x = [torch.randn(size)]
        torch.testing.assert_close(results(run, x), results(layer, x), rtol=1e-4, atol=1e-5)


def test_export_of_operator_and_layer_for_any_number_of_tokens():
    class Operator(torch.nn.Module):
        def forward(self, q, k, v):
            return mala.attention(q, k, v, rope="1d", norm="balanced")

    tokens = torch.export.Dim("tokens", min=2)
    for module, shape, count, axis in ((Operator(), (1, 2, 6, 8), 3, 2),
                                       (mala.nn.MalaAttention(16, 2, rope="1d"), (1, 6, 16), 1, 1)):
        inputs = [torch.randn(shape) for _ in range(count)]
        program = torch.export.export(module, tuple(inputs), dynamic_shapes=({axis: tokens},) * count)
        longer = [torch.randn(*shape[:axis], 11, *shape[axis + 1:]) for _ in range(count)]
        torch.testing.assert_close(program.module()(*longer), module(*longer))


def test_export_keeps_the_operator_and_the_answers():
    model = small().eval()
    images = torch.randn(2, 3, 32, 32)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model, (images,), dynamic_shapes=({0: batch},))
    assert any("mala" in str(node.target) for node in program.graph.nodes)
    more = torch.randn(5, 3, 32, 32)
    torch.testing.assert_close(program.module()(more), model(more))


def test_autocast_trains_a_model():
    model = small()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.randn(2, 3, 16, 16)).square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_opcheck():
    q, k, v = (torch.rand(1, 2, 6, 8, requires_grad=True) for _ in range(3))
    torch.library.opcheck(torch.ops.mala.attention.default, (q, k, v), {"rope": "1d"})


# A MAViT whose batch norms keep their statistics, since those of half a batch are others.
STEADY = """
def steady():
    torch.manual_seed(5)
    config = MavitConfig((16, 16), (1, 1), (2, 1), ("mala", "softmax"), projection=24, num_classes=4,
                         stem_stride=2, drop_path=0.1)
    return Mavit(config).eval()
"""
# Each process trains on its half of a batch; losses of both are averaged by the wrapper. Once with
# steady statistics, once as models are trained: batch norms, dropped branches, blocks reckoned twice.
DATA_PARALLEL = "from mala.models import Mavit, MavitConfig" + STEADY + """
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
images, labels = torch.randn(4, 3, 16, 16), torch.randn(4, 4)

def wrapped_by(wrap, model):
    if wrap == "ddp":
        return DistributedDataParallel(model)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    for stage in model.layers:
        fully_shard(stage.blocks[0].attn, mesh=mesh)
        fully_shard(stage.blocks[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)

def train(model, wrap, steps):
    wrapped, losses = wrapped_by(wrap, model), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        part = slice(2 * rank, 2 * rank + 2)
        loss = (wrapped(images[part]) - labels[part]).square().mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    whole = lambda p: p.full_tensor() if hasattr(p, "full_tensor") else p
    return [whole(p).detach().clone() for p in model.parameters()], losses

results = [train(steady(), wrap, 2)[0] for wrap in ("ddp", "fsdp")]
lively = []
for wrap in ("ddp", "fsdp"):
    model = steady().train()
    model.set_grad_checkpointing()
    lively.append(train(model, wrap, 12))
torch.save([images, labels, results, lively], f"{folder}/{rank}")
dist.destroy_process_group()
"""


def test_ddp_and_fsdp_train_as_one_process_does(two_processes):
    (images, labels, first, lively), (_, _, second, other) = two_processes(DATA_PARALLEL)
    names = {"torch": torch, "Mavit": Mavit, "MavitConfig": MavitConfig}
    exec(STEADY, names)
    model = names["steady"]()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (model(images) - labels).square().mean().backward()
        optimizer.step()
    for trained in (*first, *second):
        torch.testing.assert_close(trained, [p.detach() for p in model.parameters()],
                                   rtol=1e-4, atol=1e-5)
    for (weights, losses), (same, _) in zip(lively, other):
        torch.testing.assert_close(weights, same, rtol=0, atol=0)  # both have what was averaged
        assert losses[-1] < 0.8 * losses[0]
