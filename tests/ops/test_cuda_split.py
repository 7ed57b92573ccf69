"""The two halves of attention on a GPU: shards that add up to the whole."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("gpu")

ops = torch.ops.mala
TOLERANCE = {torch.bfloat16: 0.02, torch.float16: 0.003, torch.float: 2e-5}


def tensors(dtype, dim, value_dim, tokens=130, heads=2, group=2):
    shapes = [(heads * group, dim), (heads, dim), (heads, value_dim), *[(heads * group, value_dim)] * 2]
    return [torch.randn(2, h, tokens, d).to(dtype) for h, d in shapes]


def sharded(inputs, cuts, options, rope):
    """Each shard sums its keys; the sum of all goes to each shard's queries."""
    q, k, v, local, gate = (x.split(cuts, dim=2) for x in inputs)
    offsets = [sum(cuts[:i]) for i in range(len(cuts))]
    feature = {"feature": options["feature"]}
    state = sum(ops.attention_keys(kk, vv, rope=rope, rope_offset=offset, **feature)
                for kk, vv, offset in zip(k, v, offsets))
    count = torch.full((2,), sum(cuts), device="cpu")
    outs = [ops.attention_queries(qq, state, count, local=ll, gate=gg, rope=rope, rope_offset=offset,
                                  **options)
            for qq, ll, gg, offset in zip(q, local, gate, offsets)]
    return torch.cat(outs, dim=2)


def outcome(function, inputs, of_out):
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = function(inputs)
    return [out.detach(), *torch.autograd.grad(out, inputs, of_out.to(out))]


@pytest.mark.parametrize("sizes", [(64, 64), (40, 24), (96, 96), (128, 128), (256, 160)])
@pytest.mark.parametrize("norm", ["published", "printed", "balanced"])
@pytest.mark.parametrize("rule", ["mala", "linear", "inline"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float])
def test_shards_are_the_whole(dtype, rule, norm, sizes):
    inputs = tensors(dtype, *sizes)
    of_out = torch.randn_like(inputs[3])
    options = {"rule": rule, "norm": norm, "feature": "elu1", "eps": 0.5 if norm == "printed" else 1e-6}
    ours = outcome(lambda x: sharded(x, [37, 1, 92], options, "1d"), inputs, of_out)

    def whole(x):
        q, k, v, local, gate = x
        return ops.attention(q, k, v, local=local, gate=gate, rope="1d", **options)

    exact = outcome(whole, [x.cpu().double() for x in inputs], of_out.cpu())
    for name, actual, right in zip(("out", *"qkv", "local", "gate"), ours, exact):
        error = (actual.cpu().double() - right).square().mean().sqrt() / right.square().mean().sqrt()
        assert error <= TOLERANCE[dtype], name


def test_packed_and_counted_keys():
    k, v = (torch.randn(1, 2, 100, 64) for _ in range(2))
    offsets = torch.tensor([0, 30, 100], device="cpu")
    state = ops.attention_keys(k, v, rope="1d", cu_seqlens_k=offsets)
    expected = ops.attention_keys(k.cpu().double(), v.cpu().double(), rope="1d", cu_seqlens_k=offsets)
    torch.testing.assert_close(state.cpu().double(), expected, rtol=1e-5, atol=1e-4)
    k[:, :, 50:] = float("nan")
    counted = ops.attention_keys(k, v, rope="1d", key_lengths=torch.tensor([50], device="cpu"))
    expected = ops.attention_keys(k[:, :, :50], v[:, :, :50], rope="1d")
    torch.testing.assert_close(counted, expected)
