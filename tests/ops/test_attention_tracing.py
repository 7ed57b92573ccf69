"""torch.ops.mala.attention under opcheck, meta tensors and torch.compile."""

import cases
import pytest
import torch
from compiling import expect_one_compilation
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

attention = torch.ops.mala.attention
QUERIES, KEYS, DIM = 5, 6, 8


def inputs(layout=cases.dense, requires_grad=False):
    """q, k, v, local, gate."""
    sizes = [(QUERIES, DIM), (KEYS, DIM), (KEYS, 16), (QUERIES, 16), (QUERIES, 16)]
    return [layout(cases.heads(2, 3, *s)).requires_grad_(requires_grad) for s in sizes]


@pytest.mark.parametrize("rope", cases.ROPES)
@pytest.mark.parametrize("name", ["attention_forward", "attention_stateless", "attention"])
def test_opcheck(device, name, rope):
    q, k, v, local, gate = inputs(cases.packed, requires_grad=True)
    options = cases.rope_options(rope, QUERIES, KEYS, DIM)
    if rope != "1d":
        options.update(local=local, gate=gate)
    torch.library.opcheck(getattr(torch.ops.mala, name).default, (q, k, v), options)


@pytest.mark.parametrize("tail", [False, True])
def test_opcheck_backward(device, tail):
    q, k, v, local, gate = inputs(cases.channels_first)
    options = {"rope": "1d", "local": local, "gate": gate} if tail else {"norm": "balanced"}
    out, state = torch.ops.mala.attention_forward(q, k, v, **options)
    op = torch.ops.mala.attention_backward.default
    torch.library.opcheck(op, (torch.ones_like(out), state, q, k, v), options)


def layouts_of(tensors):
    return [(x.shape, x.stride(), x.dtype) for x in tensors]


def run_all(q, k, v, local, gate):
    """Everything that forward and backward return."""
    tail = {"local": local, "gate": gate}
    out, state = torch.ops.mala.attention_forward(q, k, v, **tail)
    alone = torch.ops.mala.attention_stateless(q, k, v, **tail)
    bare = torch.ops.mala.attention_backward(out, state, q, k, v)
    gradients = torch.ops.mala.attention_backward(out, state, q, k, v, **tail)
    return [out, state, alone, *bare, *gradients]


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_meta_and_fake_results_are_laid_out_as_real_ones(device, layout):
    real = inputs(layout)
    expected = layouts_of(run_all(*real))
    meta = [torch.empty_strided(x.shape, x.stride(), device="meta") for x in real]
    assert layouts_of(run_all(*meta)) == expected
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in real]
        assert layouts_of(run_all(*fake)) == expected


def test_meta_checks_sizes():
    q, k, v = (torch.empty(2, 3, n, 8, device="meta") for n in (5, 6, 7))
    with pytest.raises(RuntimeError, match=r"v has sizes \[2, 3, 7, 8\].*must be \[2, 3, 6, 8\]"):
        attention(q, k, v)
    with pytest.raises(RuntimeError, match="local has sizes"):
        attention(q, k, k, local=k)


def calls_in(function, *inputs):
    """The operators of ours that a function becomes when it is traced."""
    nodes = make_fx(function, tracing_mode="fake")(*inputs).graph.nodes
    names = (str(node.target) for node in nodes if node.op == "call_function")
    return [name for name in names if name.startswith("mala.")]


def test_a_state_is_traced_where_a_gradient_is(device):
    def out_and_gradient(*x):
        out = attention(*x)
        return out, torch.autograd.grad(out.sum(), x)

    x = inputs()[:3]
    followed = [y.requires_grad_() for y in inputs()[:3]]
    assert calls_in(attention, *x) == ["mala.attention_stateless.default"]
    assert calls_in(torch.no_grad()(attention), *followed) == ["mala.attention_stateless.default"]
    assert calls_in(out_and_gradient, *followed) == ["mala.attention_forward.default",
                                                     "mala.attention_backward.default"]


@pytest.mark.parametrize("layout", [cases.dense, cases.packed, cases.channels_first])
def test_compiles_once_for_all_sizes(device, layout):
    def loss(q, k, v, gate, offset):
        out = attention(q, k, v, gate=gate, rope="1d", rope_offset=[offset, 0], norm="balanced")
        return (out * out).sum()

    def call(batch, queries, keys):
        x = [cases.heads(batch, 3, n, 8) for n in (queries, keys, keys, queries)]
        return [layout(y) for y in x], (queries,)

    expect_one_compilation(loss, [call(2, 5, 6), call(3, 9, 4), call(4, 12, 17)])
