"""Layers are ordinary modules: called as such, moved and copied whole."""

import copy
import pickle

import mala
import plain
import pytest
import torch
from torch import nn


def test_every_layer_is_called_as_a_module():
    block = mala.nn.Block(16, 2, 24)
    called = set()
    for name, layer in block.named_modules():
        layer.register_forward_hook(lambda *_, name=name: called.add(name))
    block(torch.randn(1, 16, 4, 4))
    assert called == {name for name, _ in block.named_modules()}


def test_a_layer_may_be_replaced():
    class Scaled(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return 2 * self.inner(x)

    block, image = mala.nn.Block(16, 2, 24), torch.randn(1, 16, 4, 4)
    before = block(image)
    wrapped = copy.deepcopy(block)
    wrapped.ffn.fc2 = Scaled(wrapped.ffn.fc2)
    assert not torch.allclose(wrapped(image), before)
    block.ffn.fc2.weight.data *= 2
    block.ffn.fc2.bias.data *= 2
    torch.testing.assert_close(wrapped(image), block(image))


def test_pointwise_is_a_convolution():
    layer, image = mala.nn.Pointwise(6, 10), torch.randn(2, 6, 3, 5)
    torch.testing.assert_close(layer(image), nn.functional.conv2d(image, layer.weight, layer.bias))


def test_tables_go_with_the_layer():
    table = torch.rand(5, 4), torch.rand(5, 4)
    layer = mala.nn.MalaAttention(16, 2, rope=table)
    x = torch.randn(1, 5, 16)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(twin(x), layer(x))
    assert "rope=tables" in repr(layer) and not any("rope" in name for name in layer.state_dict())
    narrow = copy.deepcopy(layer).to(torch.bfloat16)  # the operator takes float32 tables alone
    assert all(torch.equal(a, b) for a, b in zip(narrow.rope, table))
    torch.testing.assert_close(narrow(x.bfloat16()).float(), layer(x), rtol=0.05, atol=0.05)
    moved = layer.to("meta")
    assert all(part.device.type == "meta" for part in moved.rope)
    assert moved(x.to("meta")).shape == x.shape


def test_drop_path_keeps_the_mean_in_bfloat16():
    branch = torch.ones(20000, 1, dtype=torch.bfloat16)
    kept = mala.nn.pixels.drop_path(branch.float(), 0.3, True)
    narrow = mala.nn.pixels.drop_path(branch, 0.3, True)
    assert narrow.dtype == torch.bfloat16
    for result in (kept, narrow):
        assert abs(result.float().mean().item() - 1) < 0.02


def test_state_survives_a_file(tmp_path):
    x = torch.rand(1, 1, 3, 8)
    _, state = mala.attention_chunk(x, x, x)
    torch.save(state, tmp_path / "state")
    loaded = torch.load(tmp_path / "state")
    assert isinstance(loaded, mala.AttentionState)
    torch.testing.assert_close(loaded, state)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1, "gate": True, "rule": "linear"},
                                     {"causal": True, "norm": "balanced", "rope": "1d"}])
def test_attention_is_the_formula_between_its_projections(options):
    layer, x = mala.nn.MalaAttention(32, 2, **options).double(), torch.randn(3, 7, 32).double()
    kv_heads = options.pop("kv_heads", 2)
    sizes = [32, 16 * kv_heads, 16 * kv_heads] + [32] * options.pop("gate", False)
    parts = (x @ layer.qkv.weight.T + layer.qkv.bias).split(sizes, -1)
    q, k, v, *gate = (part.unflatten(-1, (-1, 16)).transpose(1, 2) for part in parts)
    angles = plain.line(7, 16) if options.pop("rope", None) else None
    out = plain.mala(q, k, v, angles, gate=gate[0] if gate else 1, **options)
    wanted = out.transpose(1, 2).flatten(2) @ layer.proj.weight.T + layer.proj.bias
    torch.testing.assert_close(layer(x), wanted)
