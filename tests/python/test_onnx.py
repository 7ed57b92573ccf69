"""ONNX graphs of standard operators, run by ONNX Runtime."""

import itertools

import mala
import pytest
import torch
from mala import decompose
from mala.models import Mavit, MavitConfig

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

STANDARD = {"", "ai.onnx"}


def run(path, *inputs):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    return torch.from_numpy(session.run(None, dict(zip(names, (x.numpy() for x in inputs))))[0])


def test_decomposition_is_the_operator():
    q, k, v, gate = (torch.rand(2, n, 6, 8, dtype=torch.double) for n in (4, 2, 2, 4))
    words = itertools.product(("mala", "linear", "inline"), ("published", "printed", "balanced"),
                              ("elu1", "relu", "exp", "identity"), (False, True))
    ropes = ({}, {"rope": "1d", "rope_offset": [2, 2]}, {"rope": "2d", "grid_width": [3, 3]},
             {"rope": "table", "rope_table": [torch.rand(6, 4), torch.rand(6, 4)]},
             {"key_lengths": torch.tensor([6, 4]), "key_mean": False})
    for (rule, norm, feature, causal), more in zip(words, itertools.cycle(ropes)):
        options = {"rule": rule, "norm": norm, "feature": feature, "causal": causal, "gate": gate, **more}
        torch.testing.assert_close(decompose.attention(q, k, v, **options),
                                   torch.ops.mala.attention(q, k, v, **options), rtol=1e-6, atol=1e-6)


def test_what_has_no_standard_form_is_refused():
    x, ends = torch.rand(1, 1, 6, 8), torch.tensor([0, 6])
    with pytest.raises(NotImplementedError, match="give each sequence a batch entry"):
        decompose.attention(x, x, x, cu_seqlens_q=ends, cu_seqlens_k=ends)


def test_model_has_the_same_logits(tmp_path):
    mixers = ("mala", "linear", "inline", "softmax")  # a block each
    model = Mavit(MavitConfig((16, 16, 32, 32), (1, 1, 1, 1), (1, 1, 2, 2), mixers, projection=24,
                              num_classes=4, stem_stride=2)).eval()
    for norm in (m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)):
        norm.running_mean.normal_(std=0.1)  # so that every term counts
    path = str(tmp_path / "model.onnx")
    images = torch.randn(3, 3, 32, 32)
    mala.export_onnx(model, path, dynamic_batch=True)  # from a picture of its own
    graph = onnx.load(path)
    assert {node.domain for node in graph.graph.node} <= STANDARD
    assert {entry.domain for entry in graph.opset_import} <= STANDARD
    with torch.no_grad():
        torch.testing.assert_close(run(path, images), model(images), rtol=1e-4, atol=1e-5)


def test_a_model_by_name_is_exported(tmp_path):
    model = mala.create_model("mavit_n", depths=(1, 1, 1, 1)).eval()
    path = str(tmp_path / "mavit_n.onnx")
    mala.export_onnx(model, path)
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(run(path, images), model(images), rtol=1e-3, atol=1e-4)


def test_state_is_exported(tmp_path):
    class Chunk(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = mala.nn.MalaAttention(16, 2, kv_heads=1, causal=True, rope="1d")

        def forward(self, x):
            return self.layer.chunk(x)[1].sums

    model, path, x = Chunk().eval(), str(tmp_path / "chunk.onnx"), torch.randn(2, 5, 16)
    mala.export_onnx(model, path, x)
    with torch.no_grad():
        torch.testing.assert_close(run(path, x), model(x), rtol=1e-5, atol=1e-5)


def test_state_of_the_decomposition_is_the_operators():
    q, k, v = (torch.rand(2, n, 6, 8, dtype=torch.double) for n in (4, 2, 2))
    for more in ({}, {"rope": "1d"}, {"feature": "exp", "key_lengths": torch.tensor([6, 4])}):
        wanted = torch.ops.mala.attention_chunk(q, k, v, **more)
        found = decompose._attention_chunk(q, k, v, **more)
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b)


def test_text_model(tmp_path):
    layer = mala.nn.MalaAttention(16, 2, causal=True, rope="1d", gate=True).eval()
    x = torch.randn(2, 9, 16)
    mala.export_onnx(layer, tmp_path / "layer.onnx", x)
    torch.testing.assert_close(run(str(tmp_path / "layer.onnx"), x), layer(x).detach(),
                               rtol=1e-4, atol=1e-5)


def test_training_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="call model.eval"):
        mala.export_onnx(mala.create_model("mavit_n"), tmp_path / "no")
    assert not list(tmp_path.iterdir())
