"""Every type: as accurate as the formula in float32 that is rounded once."""

import cases
import formula
import pytest
import torch

attention = torch.ops.mala.attention
HALVES = [torch.bfloat16, torch.float16]
TOKENS, DIM, VALUE_DIM = 70, 24, 40
TEXTS, TEXT = 6, 700  # texts of a causal call, and their tokens: several blocks, two parts
# The bar: twice the error of the float32 formula, rounded once to the narrow type.
ALLOWED = 2.0


def half_inputs(dtype, layout=cases.dense):
    """q, k, v, local, gate."""
    torch.manual_seed(7)
    dims = (DIM, DIM, VALUE_DIM, VALUE_DIM, VALUE_DIM)
    return [layout(torch.randn(2, 2, TOKENS, dim).to(dtype)) for dim in dims]


def outcome(function, inputs, out_gradient, options):
    """The output and all gradients."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    q, k, v, local, gate = inputs
    out = function(q, k, v, local=local, gate=gate, **options)
    return [out.detach(), *torch.autograd.grad(out, inputs, out_gradient.to(out.dtype))]


def error(actual, exact):
    return (actual.double() - exact).abs().max().item()


@pytest.mark.parametrize("layout", [cases.dense, cases.channels_first, cases.packed])
@pytest.mark.parametrize("norm", ["published", "balanced"])
@pytest.mark.parametrize("rule", cases.RULES)
@pytest.mark.parametrize("half", HALVES)
def test_accuracy(device, half, rule, norm, layout):
    inputs = half_inputs(half, layout)
    out_gradient = torch.randn(2, 2, TOKENS, VALUE_DIM).to(half)
    options = {"rule": rule, "norm": norm, "rope": "2d", "grid_width": [10, 10]}
    exact = outcome(formula.attention, [x.double() for x in inputs], out_gradient, options)
    in_float = outcome(formula.attention, [x.float() for x in inputs], out_gradient, options)
    ours = outcome(attention, inputs, out_gradient, options)
    for name, actual, simple, right in zip(("out", *"qkv", "local", "gate"), ours, in_float, exact):
        assert actual.dtype == half
        assert error(actual, right) <= ALLOWED * error(simple.to(half), right), name


def text_inputs(dtype, first_value):
    """q, k, v, local, gate of texts, whose first value may be an outlier."""
    dims = (DIM, DIM, VALUE_DIM, VALUE_DIM, VALUE_DIM)
    x = [torch.randn(TEXTS, 2, TEXT, dim) for dim in dims]
    if first_value is not None:
        x[2][:, :, 0] = first_value
    return [y.to(dtype) for y in x]


def typical_error(actual, exact):
    """The root mean square: the largest of a part is a matter of one token's luck."""
    return (actual.double() - exact).square().mean().sqrt().item()


@pytest.mark.parametrize("first_value", [None, 100.0])
@pytest.mark.parametrize("rule", cases.RULES)
@pytest.mark.parametrize("dtype", [torch.float, *HALVES])
def test_accuracy_of_texts(dtype, rule, first_value):
    """In every part of a text, so that no other part's numbers hide errors."""
    inputs = text_inputs(dtype, first_value)
    out_gradient = torch.randn(TEXTS, 2, TEXT, VALUE_DIM).to(dtype)
    options = {"rule": rule, "rope": "1d", "causal": True}
    exact = outcome(formula.attention, [x.double() for x in inputs], out_gradient, options)
    in_float = outcome(formula.attention, [x.float() for x in inputs], out_gradient, options)
    ours = outcome(attention, inputs, out_gradient, options)
    for name, *results in zip(("out", *"qkv", "local", "gate"), ours, in_float, exact):
        assert results[0].dtype == dtype
        for i, (actual, simple, right) in enumerate(zip(*(x.split(100, dim=2) for x in results))):
            allowed = ALLOWED * typical_error(simple.to(dtype), right)
            assert typical_error(actual, right) <= allowed, f"{name}, part {i}"


@pytest.mark.parametrize("half", HALVES)
def test_state_stays_in_float(device, half):
    q, k, v, _, _ = half_inputs(half)
    _, state = torch.ops.mala.attention_forward(q, k, v)
    assert state.dtype == torch.float
    sums = formula.feature_map("elu1", k.double()).transpose(-1, -2) @ v.double()
    kept = state[..., : DIM * VALUE_DIM].view(2, 2, DIM, VALUE_DIM)
    if q.is_cuda and half == torch.bfloat16:  # tensor cores take in features of 11 bits
        terms = formula.feature_map("elu1", k.double()).transpose(-1, -2) @ v.double().abs()
        assert ((kept - sums).abs() <= 2**-12 * terms).all()
    else:
        torch.testing.assert_close(kept, sums.float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("half", HALVES)
def test_opcheck(device, half):
    q, k, v, local, gate = (x.requires_grad_() for x in half_inputs(half, cases.packed))
    torch.library.opcheck(torch.ops.mala.attention.default, (q, k, v),
                          {"local": local, "gate": gate, "rope": "1d"})


@pytest.mark.parametrize("half", HALVES)
def test_autocast_takes_its_type(device, half):
    inputs = [x.float().requires_grad_() for x in half_inputs(half)]
    q, k, v, local, gate = inputs
    with torch.autocast(device, dtype=half):
        out = attention(q, k, v.to(half), local=local, gate=gate)
    assert out.dtype == half
    narrow = [x.to(half) for x in inputs]
    assert torch.equal(out, attention(*narrow[:3], local=narrow[3], gate=narrow[4]))
    out.sum().backward()
    assert q.grad.dtype == torch.float and gate.grad.dtype == torch.float


def test_autocast_keeps_double():
    q, k, v, _, _ = (x.double() for x in half_inputs(torch.float))
    with torch.autocast("cpu"):
        assert attention(q, k, v).dtype == torch.double


def test_mixed_types_are_refused(device):
    q, k, v, _, _ = half_inputs(torch.bfloat16)
    with pytest.raises(RuntimeError, match="k is Half.*q is BFloat16.*one type"):
        attention(q, k.half(), v)
