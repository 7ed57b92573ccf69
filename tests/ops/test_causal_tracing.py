"""Causal attention of torch.ops.mala under opcheck, meta tensors and torch.compile."""

import cases
import pytest
import torch
from compiling import compile_counted, expect_one_compilation
from torch._subclasses.fake_tensor import FakeTensorMode

attention = torch.ops.mala.attention
attention_chunk = torch.ops.mala.attention_chunk
attention_text = torch.ops.mala.attention_text
attention_step = torch.ops.mala.attention_step
backward = torch.ops.mala.attention_chunk_backward


def inputs(kind, layout=cases.dense, requires_grad=False):
    """q, k, v, local, gate, and the state and count of three sequences."""
    x = [layout(y.detach()) for y in cases.causal_inputs(kind, dtype=torch.float)]
    state, count = cases.text_state(3)
    return [y.requires_grad_(requires_grad) for y in (*x, state)] + [count]


@pytest.mark.parametrize("rope", ["none", "1d", "2d"])
@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_opcheck(kind, rope):
    q, k, v, local, gate, state, count = inputs(kind, cases.packed, requires_grad=True)
    options = {**cases.CAUSAL_LENGTHS[kind], **cases.lengths_rope(rope)}
    if rope != "1d":
        options.update(local=local, gate=gate)
    torch.library.opcheck(attention.default, (q, k, v), {**options, "causal": True})
    torch.library.opcheck(attention_text.default, (q, k, v), options)
    if rope != "2d":
        options.update(state=state, count=count)
    torch.library.opcheck(attention_chunk.default, (q, k, v), options)


@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_opcheck_backward(kind):
    q, k, v, local, gate, state, count = inputs(kind, cases.channels_first)
    options = {**cases.CAUSAL_LENGTHS[kind], **cases.lengths_rope("1d")}
    bare = (torch.ones_like(local), None, q, k, v)
    torch.library.opcheck(backward.default, bare, options)
    options.update(local=local, gate=gate, state=state, count=count)
    full = (torch.ones_like(local), torch.ones_like(state), q, k, v)
    torch.library.opcheck(backward.default, full, options)


@pytest.mark.parametrize("rope", ["none", "1d", "table"])
def test_opcheck_step(rope):
    q, k, v, local, gate, state, count = inputs("whole", cases.tokens_outside)
    token = [x[:, :, :1] for x in (q, k, v)]
    options = cases.rope_options(rope, 7, 7, 8)
    if rope == "1d":
        options.update(local=local[:, :, :1], gate=gate[:, :, :1])
    torch.library.opcheck(attention_step.default, (*token, state, count), options)


def layouts_of(tensors):
    return [(x.shape, x.stride(), x.dtype) for x in tensors]


def run_all(lengths, q, k, v, local, gate, state, count):
    """Everything that the operators return."""
    tail = {"local": local, "gate": gate, **lengths}
    before = {"state": state, "count": count}
    out, after, counts = attention_chunk(q, k, v, **tail, **before)
    results = [out, after, counts, *attention_chunk(q, k, v, **lengths)]
    results.append(attention_text(q, k, v, **tail))
    results += backward(out, after, q, k, v, **tail, **before)
    results += backward(out, None, q, k, v, **lengths)
    if not lengths:
        token = (x[:, :, :1] for x in (q, k, v))
        results.append(attention_step(*token, state, count))
    return results


@pytest.mark.parametrize("layout", [cases.dense, cases.packed, cases.channels_first])
@pytest.mark.parametrize("kind", cases.CAUSAL_LENGTHS)
def test_meta_and_fake_results_are_laid_out_as_real_ones(kind, layout):
    lengths, real = cases.CAUSAL_LENGTHS[kind], inputs(kind, layout)
    expected = layouts_of(run_all(lengths, *real))
    assert expected[1] == ((3, 2, 8 * 16 + 2 * 8 + 16), (2 * 160, 160, 1), torch.double)
    assert expected[2] == ((3,), (1,), torch.long)
    assert expected[-1 if lengths else -2][0] == (0,)  # the gradient of a state that was absent
    meta = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in real]
    meta_lengths = {name: x.to("meta") for name, x in lengths.items()}
    assert layouts_of(run_all(meta_lengths, *meta)) == expected
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in real]
        fake_lengths = {name: mode.from_tensor(x) for name, x in lengths.items()}
        assert layouts_of(run_all(fake_lengths, *fake)) == expected


def test_meta_checks_sizes():
    q, k = (torch.empty(2, 3, n, 8, device="meta") for n in (5, 6))
    with pytest.raises(RuntimeError, match="q has 5 tokens but k has 6.*the same tokens"):
        attention(q, k, k, causal=True)
    state = torch.empty(2, 3, 88, dtype=torch.double, device="meta")
    count = torch.empty(2, dtype=torch.long, device="meta")
    with pytest.raises(RuntimeError, match="q has 6 tokens; a step takes one.*attention_chunk"):
        attention_step(k, k, k, state, count)
    with pytest.raises(RuntimeError, match=r"state has sizes \[2, 3, 88\].*need \[2, 3, 160\]"):
        attention_chunk(k, k, torch.empty(2, 3, 6, 16, device="meta"), state=state, count=count)


@pytest.mark.parametrize("layout", [cases.dense, cases.packed])
def test_one_shot_compiles_once_for_all_sizes(layout):
    def loss(q, k, v, gate):
        out = attention(q, k, v, gate=gate, rope="1d", causal=True)
        return (out * out).sum()

    def call(batch, tokens):
        return [layout(cases.heads(batch, n, tokens, 8)) for n in (6, 3, 3, 6)], ()

    expect_one_compilation(loss, [call(2, 5), call(3, 9), call(4, 12)])


def test_two_chunks_compile_once_for_all_sizes():
    def loss(q, k, v, state, count):
        first = attention_chunk(q, k, v, state=state, count=count, rope="1d")
        second = attention_chunk(q, k, v, state=first[1], count=first[2], rope="1d")
        return (first[0] * second[0]).sum() + second[1].sin().sum() + second[2].sum()

    def call(batch, tokens):
        state, count = cases.text_state(4, count=batch, kv_heads=3)
        x = [cases.heads(batch, n, tokens, d) for n, d in ((6, 8), (3, 8), (3, 16))]
        return [*x, state], (count,)

    expect_one_compilation(loss, [call(2, 5), call(3, 9), call(4, 12)])


def test_packed_chunks_compile_once_for_all_sizes():
    def loss(q, k, v, sizes):
        ends = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
        out = attention(q, k, v, cu_seqlens_q=ends, causal=True)
        return (out * out).sum()

    def call(*sizes):
        x = [cases.heads(1, n, sum(sizes), 8) for n in (6, 3, 3)]
        return x, (torch.tensor(sizes),)

    expect_one_compilation(loss, [call(2, 5), call(3, 1, 4), call(6, 2, 3, 5)])


def test_steps_compile_once_and_update_in_place():
    def decode(q, k, v, state, count):
        first = attention_step(q, k, v, state, count, rope="1d")
        return first + attention_step(first[..., :8], k, v, state, count, rope="1d")

    compiled, counter = compile_counted(decode)
    for batch in (2, 3, 4):
        x = [cases.heads(batch, n, 1, d) for n, d in ((6, 8), (3, 8), (3, 16))]
        state, count = cases.text_state(4, count=batch, kv_heads=3)
        eager = state.clone(), count.clone()
        wanted = decode(*x, *eager)
        torch.testing.assert_close(compiled(*x, state, count), wanted)
        torch.testing.assert_close(state, eager[0])
        assert count.tolist() == [6] * batch == eager[1].tolist()
    assert counter.frame_count == 1
