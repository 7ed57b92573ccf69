"""mala.attention against a formula of the tests' own: options, layouts, types, forms of RoPE."""

import itertools

import mala
import plain
import pytest
import torch

# One rounding of a result of size one: float32 sums in blocks, the narrow types round once.
CLOSE = {torch.double: 1e-6, torch.float: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
OPTIONS = [dict(zip(("rule", "feature", "norm"), words)) for words in itertools.product(
    ("mala", "linear", "inline"), ("elu1", "relu", "exp"), ("published", "printed", "balanced"))]


def heads(*shape, dtype=torch.float):
    return (torch.randn(*shape, dtype=torch.double) * 0.4 + 0.6).to(dtype)


def tokens(dtype=torch.float, batch=2, count=3, n=12, dim=8):
    return [heads(batch, count, n, dim, dtype=dtype) for _ in range(3)]


def expect_close(ours, wanted):
    limit = CLOSE[ours.dtype]
    torch.testing.assert_close(ours.double(), wanted, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_every_rule_feature_and_norm_in_every_type(dtype):
    q, k, v = tokens(dtype)
    for options in OPTIONS:
        expect_close(mala.attention(q, k, v, **options), plain.mala(q, k, v, **options))


def test_forms_of_rope():
    q, k, v = tokens()
    angles = torch.rand(12, 4, dtype=torch.double)
    forms = [("1d", plain.line(12, 8)), ((3, 4), plain.grid(3, 4, 8)), ([3, 4], plain.grid(3, 4, 8)),
             ((angles.cos().float(), angles.sin().float()), angles)]
    for rope, wanted in forms:
        for norm in ("published", "printed", "balanced"):
            expect_close(mala.attention(q, k, v, rope=rope, norm=norm),
                         plain.mala(q, k, v, wanted, norm=norm))


def test_norm_none_is_published_and_for_causal_mala_balanced():
    q, k, v = tokens()
    angles = plain.line(12, 8)
    expect_close(mala.attention(q, k, v, rope="1d"), plain.mala(q, k, v, angles))
    for rule, norm in (("mala", "balanced"), ("linear", "published")):
        expect_close(mala.attention(q, k, v, rope="1d", rule=rule, causal=True),
                     plain.mala(q, k, v, angles, rule=rule, norm=norm, causal=True))


def test_other_options():
    q, k, v = tokens()
    local, gate = heads(2, 3, 12, 8), heads(2, 3, 12, 8)
    options = {"scale": 0.3, "eps": 0.1, "key_mean": False, "local": local, "gate": gate}
    expect_close(mala.attention(q, k, v, **options), plain.mala(q, k, v, **options))


LAYOUTS = {
    "tokens outside": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "channels first": lambda x: x.mT.contiguous().mT,
    "every second": lambda x: x.repeat_interleave(2, 2)[:, :, ::2],
    "expanded batch": lambda x: x[:1].expand(2, -1, -1, -1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_their_gradients(layout):
    dense = [LAYOUTS[layout](x).contiguous().requires_grad_() for x in tokens()]
    strided = [LAYOUTS[layout](x.detach()).requires_grad_() for x in dense]
    outs = [mala.attention(*x, rope=(3, 4)) for x in (dense, strided)]
    torch.testing.assert_close(*outs)
    grads = [torch.autograd.grad(out.sin().sum(), x) for out, x in zip(outs, (dense, strided))]
    torch.testing.assert_close(*grads)


def test_gradients_by_finite_differences():
    x = [y.requires_grad_() for y in tokens(torch.double, 1, 2, 4)]
    tail = [heads(1, 2, 4, 8, dtype=torch.double).requires_grad_() for _ in range(2)]
    for options in ({"rope": (2, 2)}, {"rope": "1d", "causal": True}):
        call = lambda q, k, v, local, gate: mala.attention(q, k, v, local=local, gate=gate, **options)
        torch.autograd.gradcheck(call, (*x, *tail), fast_mode=True)


def test_lengths_are_those_of_separate_calls():
    q, k, v = tokens()
    out = mala.attention(q, k, v, key_lengths=torch.tensor([12, 5]))
    torch.testing.assert_close(out[1:], mala.attention(q[1:], k[1:, :, :5], v[1:, :, :5]))
    one = [x[:1] for x in (q, k, v)]
    offsets = torch.tensor([0, 4, 12])
    parts = lambda rope: torch.cat([mala.attention(*(x[:, :, a:b] for x in one), rope=r)
                                    for (a, b), r in zip(((0, 4), (4, 12)), rope)], 2)
    torch.testing.assert_close(mala.attention(*one, cu_seqlens=offsets, rope="1d"), parts(["1d"] * 2))
    torch.testing.assert_close(mala.attention(*one, cu_seqlens=(offsets, offsets)), parts([None] * 2))
    images = [(2, 2), (2, 4)]
    torch.testing.assert_close(mala.attention(*one, cu_seqlens=offsets, rope=images), parts(images))


def test_grouped_heads_and_cross_attention():
    q, k, v = heads(2, 4, 7, 8), heads(2, 2, 12, 8), heads(2, 2, 12, 16)
    expect_close(mala.attention(q, k, v), plain.mala(q, k, v))


def test_text_whole_in_chunks_and_by_steps():
    q, k, v = tokens(torch.double)
    whole = mala.attention(q, k, v, causal=True, rope="1d")
    first, state = mala.attention_chunk(*(x[:, :, :7] for x in (q, k, v)), rope="1d")
    kept = state.clone()
    second, _ = mala.attention_chunk(*(x[:, :, 7:] for x in (q, k, v)), state, rope="1d")
    torch.testing.assert_close(torch.cat([first, second], 2), whole)
    for state, begin in ((kept, 7), (None, 0)):
        for n in range(begin, 12):
            out, state = mala.attention_step(*(x[:, :, n : n + 1] for x in (q, k, v)), state, rope="1d")
            torch.testing.assert_close(out, whole[:, :, n : n + 1])
        assert state.count.tolist() == [12, 12]


def test_gradients_walk_back_through_chunks_until_detached():
    q, k, v = (x.requires_grad_() for x in tokens(torch.double))
    wanted = torch.autograd.grad(mala.attention(q, k, v, causal=True)[:, :, 7:].sum(), k)[0]
    _, state = mala.attention_chunk(*(x[:, :, :7] for x in (q, k, v)))
    rest = [x[:, :, 7:] for x in (q, k, v)]
    out, _ = mala.attention_chunk(*rest, state)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), k, retain_graph=True)[0], wanted)
    out, _ = mala.attention_chunk(*rest, state.detach())
    assert torch.autograd.grad(out.sum(), k)[0][:, :, :7].abs().max() == 0


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("causal", [False, True])
def test_torch_func(causal):
    inputs = [torch.rand(2, heads, 6, 8, dtype=torch.double) for heads in (4, 2, 2, 4, 4)]

    def call(q, k, v, local, gate):
        return mala.attention(q, k, v, local=local, gate=gate, rope="1d", causal=causal)

    leaves = [x.clone().requires_grad_() for x in inputs]
    wanted = torch.autograd.grad(call(*leaves).sin().sum(), leaves)
    everything = tuple(range(5))
    found = torch.func.grad(lambda *x: call(*x).sin().sum(), everything)(*inputs)
    torch.testing.assert_close(found, wanted)
    one = torch.func.grad(lambda *x: call(*(y[None] for y in x)).sin().sum(), everything)
    torch.testing.assert_close(torch.func.vmap(one)(*inputs), wanted)  # gradients of each example
    out, pull = torch.func.vjp(call, *inputs)
    torch.testing.assert_close(pull(out.cos()), wanted)
    slopes = torch.func.jacrev(lambda v: call(*inputs[:2], v, *inputs[3:]))(inputs[2])
    torch.testing.assert_close(torch.tensordot(out.cos(), slopes, 4), wanted[2])
    with pytest.raises(RuntimeError, match="only first derivatives"):
        torch.func.jacrev(torch.func.grad(lambda q: call(q, *inputs[1:]).sum()))(inputs[0])


def test_autocast_and_vmap():
    q, k, v = tokens()
    with torch.autocast("cpu", torch.bfloat16):
        out = mala.attention(q, k, v)
    assert out.dtype == torch.bfloat16
    expect_close(out, plain.mala(*(x.bfloat16() for x in (q, k, v))))
    one = lambda q, k, v: mala.attention(q[None], k[None], v[None])[0]
    torch.testing.assert_close(torch.func.vmap(one)(q, k, v), mala.attention(q, k, v))
