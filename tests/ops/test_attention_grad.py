"""The gradients of torch.ops.mala.attention."""

import cases
import formula
import pytest
import torch

attention = torch.ops.mala.attention
SHAPE = {"queries": 3, "keys": 4, "dim": 8, "value_dim": 16}

# Rounding of float32 kernels, relative to the largest value of a gradient.
FLOAT_TOLERANCE = 5e-5


def leaves(dtype=torch.double, layout=cases.dense):
    """q, k, v, local, gate."""
    queries, keys, dim, value_dim = SHAPE.values()
    sizes = [(queries, dim), (keys, dim), (keys, value_dim), (queries, value_dim)]
    sizes.append(sizes[-1])
    return [layout(cases.heads(1, 2, *size, dtype)).requires_grad_() for size in sizes]


@pytest.mark.parametrize("rule", cases.RULES)
@pytest.mark.parametrize("norm", cases.NORMS)
def test_gradcheck_over_all_options(rule, norm):
    q, k, v, local, gate = leaves()
    for i, options in enumerate(cases.all_options(SHAPE["queries"], SHAPE["keys"], SHAPE["dim"])):
        if (options["rule"], options["norm"]) != (rule, norm):
            continue
        tail = [(None, None), (local, None), (None, gate), (local, gate)][(i + i // 4) % 4]
        torch.autograd.gradcheck(
            lambda q, k, v, local, gate: attention(q, k, v, local=local, gate=gate, **options),
            (q, k, v, *tail),
            fast_mode=i % 7 != 0,
        )


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_gradients_in_every_layout(layout):
    inputs = leaves(layout=layout)
    run = lambda q, k, v, local, gate: attention(q, k, v, local=local, gate=gate, rope="1d")
    torch.autograd.gradcheck(run, inputs)
    gradients = torch.autograd.grad(run(*inputs).sum(), inputs)
    if layout in (cases.dense, cases.tokens_outside, cases.channels_first, cases.channels_last):
        # But for the batch of one, whose stride means nothing.
        assert [g.stride()[1:] for g in gradients] == [x.stride()[1:] for x in inputs]


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_float_gradients_in_every_layout(device, layout):
    inputs = leaves(torch.float, layout)
    out_gradient = torch.randn(1, 2, 3, 16)
    expect_gradients_of_the_formula(inputs, out_gradient)


def gradients(function, inputs, out_gradient):
    q, k, v, local, gate = inputs
    out = function(q, k, v, local=local, gate=gate, rope="1d")
    return torch.autograd.grad(out, inputs, out_gradient)


def expect_gradients_of_the_formula(inputs, out_gradient):
    doubles = [x.detach().double().requires_grad_() for x in inputs]
    expected = gradients(formula.attention, doubles, out_gradient.double())
    for actual, wanted in zip(gradients(attention, inputs, out_gradient), expected):
        assert (actual - wanted).abs().max() < FLOAT_TOLERANCE * wanted.abs().max()


@pytest.mark.parametrize(
    "out_gradient",
    [
        lambda: torch.randn(1, 2, 16, 3).transpose(2, 3),
        lambda: torch.randn(1).expand(1, 2, 3, 16),
        lambda: torch.randn(1, 2, 1, 16).expand(1, 2, 3, 16),
        lambda: torch.randn(2, 4, 6, 32)[:1, ::2, 1::2, ::2],
    ],
    ids=["transposed", "expanded", "expanded tokens", "sliced"],
)
def test_float_gradients_equal_those_of_the_formula(device, out_gradient):
    expect_gradients_of_the_formula(leaves(torch.float), out_gradient())


def test_only_asked_gradients_are_returned(device):
    q, k, v, local, gate = leaves(torch.float)
    k.requires_grad_(False)
    local.requires_grad_(False)
    attention(q, k, v, local=local, gate=gate).sum().backward()
    assert [x.grad is not None for x in (q, k, v, local, gate)] == [True, False, True, False, True]

    q.grad = None
    attention(q.detach(), k, v.detach(), gate=gate).sum().backward()
    assert q.grad is None

    v.grad = None
    local.requires_grad_()
    attention(q.detach(), k.detach(), v.detach(), local=local).sum().backward()
    assert torch.equal(local.grad, torch.ones_like(local))
    assert v.grad is None


def test_state_has_no_gradient(device):
    q, k, v, _, _ = leaves(torch.float)
    out, state = torch.ops.mala.attention_forward(q, k, v)
    assert out.requires_grad and not state.requires_grad
    assert state.shape == (1, 2, 8 * 16 + 2 * 8 + 16)


def test_no_graph_without_need(device):
    q, k, v, _, _ = leaves(torch.float)
    with torch.no_grad():
        assert not attention(q, k, v).requires_grad
    assert not attention(q.detach(), k.detach(), v.detach()).requires_grad


@pytest.mark.parametrize("options", [{}, {"rope": "1d", "norm": "balanced"}])
def test_result_is_the_same_without_need(device, options):
    q, k, v, local, gate = leaves(torch.float)
    options = {"local": local, "gate": gate, **options}
    out = attention(q, k, v, **options)
    with torch.no_grad():
        assert torch.equal(attention(q, k, v, **options), out)
    with torch.inference_mode():
        assert torch.equal(attention(q, k, v, **options), out)


def test_forward_derivatives_are_refused(device):
    q, k, v, _, _ = (x.detach() for x in leaves(torch.float))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(k, torch.ones_like(k))
        with pytest.raises(RuntimeError, match="jvp is not implemented"):
            attention(q, dual, v)


def test_changed_input_is_noticed(device):
    q, k, v, _, _ = leaves(torch.float)
    k = k * 1
    out = attention(q, k, v)
    k.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_second_derivative_is_refused_in_words(device):
    q, k, v, _, _ = leaves(torch.float)
    (gradient,) = torch.autograd.grad(attention(q, k, v).sum(), q, create_graph=True)
    message = r"\[mala::attention_backward\] .* only first derivatives are computed"
    with pytest.raises(RuntimeError, match=message):
        gradient.sum().backward()


def test_table_that_requires_grad_is_refused():
    q, k, v, _, _ = leaves()
    table = [torch.rand(4, 4, requires_grad=True) for _ in range(2)]
    with pytest.raises(RuntimeError, match=r"rope_table requires a gradient.*table.detach\(\)"):
        attention(q, k, v, rope="table", rope_table=table)
