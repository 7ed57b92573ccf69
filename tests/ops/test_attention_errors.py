"""What torch.ops.mala.attention says to a call that cannot work."""

import pytest
import torch

attention = torch.ops.mala.attention


def heads(*sizes, dtype=torch.float):
    return torch.zeros(*sizes, dtype=dtype)


X = heads(1, 2, 6, 8)
TABLE = heads(6, 4)
ENDS = torch.tensor([0, 2, 6])


def packed(offsets_q=ENDS, offsets_k=ENDS, **options):
    return attention(X, X, X, cu_seqlens_q=offsets_q, cu_seqlens_k=offsets_k, **options)


def counted(*lengths, **options):
    return attention(X, X, X, key_lengths=torch.tensor(lengths, **options))


def gridded(widths, **options):
    return packed(rope="2d", grid_widths=widths, **options)

# What is called, and what the error says: what came, then what is needed.
WRONG_CALLS = {
    "rank": (lambda: attention(X[0], X, X), [r"q has sizes \[2, 6, 8\]", "four dimensions"]),
    "rank of gate": (lambda: attention(X, X, X, gate=X[0]), ["gate has sizes", "four dimensions"]),
    "head size": (lambda: attention(X, heads(1, 2, 6, 16), X), ["k", "16", "8"]),
    "keys": (lambda: attention(X, X, heads(1, 2, 5, 8)), ["v", "5", "6"]),
    "batch": (lambda: attention(X, heads(3, 2, 6, 8), heads(3, 2, 6, 8)), ["k", "3", "1"]),
    "local": (lambda: attention(X, X, X, local=heads(1, 2, 5, 8)), ["local", "5", "6"]),
    "gate broadcast": (lambda: attention(X, X, X, gate=heads(1, 2, 6, 1)), ["gate", "1", "8"]),
    "not a multiple of 8": (lambda: attention(*[heads(1, 2, 6, 12)] * 3), ["12", "8"]),
    "no keys": (lambda: attention(X, X[:, :, :0], X[:, :, :0]), ["0", "k"]),
    "integers": (lambda: attention(*[X.long()] * 3), ["q is Long", "bfloat16", "float64"]),
    "mixed types": (lambda: attention(X, X.double(), X), ["k is Double", "q is Float"]),
    "head size, traced": (lambda: attention(*[X[..., :6].to("meta")] * 3), ["head size 6", "of 8"]),
    "width without rope": (
        lambda: attention(X, X, X, grid_width=[2, 2]),
        ['"none"', "grid_width", "2d"],
    ),
    "offset without rope": (
        lambda: attention(X, X, X, rope_offset=[2, 2]),
        ['"none"', "rope_offset"],
    ),
    "mixed devices": (lambda: attention(X, X, X.to("meta")), ["v is Float on meta", "on cpu"]),
    "rule": (
        lambda: attention(X, X, X, rule="malla"),
        ['rule is "malla"; valid are "mala", "linear", "inline"'],
    ),
    "norm": (
        lambda: attention(X, X, X, norm=""),
        ['norm is ""; valid are "published", "printed", "balanced"'],
    ),
    "feature": (
        lambda: attention(X, X, X, feature="elu"),
        ['feature is "elu"; valid are "elu1", "relu", "exp", "identity"'],
    ),
    "rope": (
        lambda: attention(X, X, X, rope="3d"),
        ['rope is "3d"; valid are "none", "1d", "2d", "table"'],
    ),
    "no grid": (lambda: attention(X, X, X, rope="2d"), ["grid_width 0", "in a row of the image"]),
    "three offsets": (
        lambda: attention(X, X, X, rope="1d", rope_offset=[1, 2, 3]),
        ["rope_offset has 3 values", "two, for q and for k"],
    ),
    "no table": (lambda: attention(X, X, X, rope="table"), ["0 tensors", r"give \[cos, sin\]"]),
    "table unasked": (
        lambda: attention(X, X, X, rope_table=[TABLE, TABLE]),
        ['rope is "none" but rope_table is given'],
    ),
    "short table": (
        lambda: attention(X, X, X, rope="table", rope_table=[TABLE[:5], TABLE[:5]]),
        ["5", "6"],
    ),
    "table without rows": (
        lambda: attention(X, X, X, rope="table", rope_table=[TABLE[:0], TABLE[:0]]),
        [r"rope_table has sizes \[0, 4\]; it needs a row for each token"],
    ),
    "narrow table": (
        lambda: attention(X, X, X, rope="table", rope_table=[TABLE[:, :3]] * 2),
        [r"rope_table has sizes \[6, 3\]", r"\(tokens, D / 2\) with D = 8"],
    ),
    "strided table": (
        lambda: attention(X, X, X, rope="table", rope_table=[heads(4, 6).t()] * 2),
        ["rope_table has strides", r"call .contiguous\(\)"],
    ),
    "unlike tables": (
        lambda: attention(X, X, X, rope="table", rope_table=[TABLE, heads(6, 8)[:, :4]]),
        ["they must be alike"],
    ),
    "double table": (
        lambda: attention(X, X, X, rope="table", rope_table=[TABLE.double()] * 2),
        ["rope_table holds Double", "must be float32"],
    ),
    "heads that do not divide": (
        lambda: attention(heads(1, 3, 6, 8), X, X),
        ["k has 2 heads but q has 3", "must divide those of q"],
    ),
    "floating lengths": (
        lambda: counted(6.0),
        ["key_lengths is Float", "int32 and int64 work", r"\.long\(\)"],
    ),
    "short lengths": (lambda: counted(6, dtype=torch.int16), ["key_lengths is Short", "int32"]),
    "lengths elsewhere": (
        lambda: counted(6, device="meta"),
        ["key_lengths is on meta but q is on cpu", r"call .cpu\(\) on key_lengths"],
    ),
    "rank of lengths": (
        lambda: counted([6]),
        [r"key_lengths has sizes \[1, 1\]", "one number for each entry"],
    ),
    "number of lengths": (lambda: counted(6, 6), ["key_lengths has 2 numbers for a batch of 1"]),
    "no keys count": (lambda: counted(0), [r"key_lengths\[0\] is 0; each must be 1 to 6"]),
    "more keys than there are": (
        lambda: counted(7),
        [r"key_lengths\[0\] is 7; each must be 1 to 6"],
    ),
    "lengths and offsets": (
        lambda: packed(key_lengths=torch.tensor([6])),
        ["key_lengths came with cu_seqlens", "one or the other"],
    ),
    "half of the offsets": (
        lambda: packed(offsets_k=None),
        ["cu_seqlens_q came without cu_seqlens_k", "pass both"],
    ),
    "other half of the offsets": (
        lambda: packed(offsets_q=None),
        ["cu_seqlens_k came without cu_seqlens_q", "pass both"],
    ),
    "floating offsets": (lambda: packed(ENDS.double()), ["cu_seqlens_q is Double"]),
    "offsets elsewhere": (
        lambda: packed(ENDS, ENDS.to("meta")),
        ["cu_seqlens_k is on meta but q is on cpu"],
    ),
    "rank of offsets": (
        lambda: packed(ENDS, ENDS[None]),
        [r"cu_seqlens_k has sizes \[1, 3\]", r"\(sequences \+ 1\)"],
    ),
    "one offset": (lambda: packed(ENDS[:1], ENDS[:1]), ["cu_seqlens_q has 1 numbers", "least 2"]),
    "unlike offsets": (
        lambda: packed(ENDS, ENDS[::2]),
        ["cu_seqlens_q has 3 numbers but cu_seqlens_k 2"],
    ),
    "packed batch": (
        lambda: attention(*[heads(2, 2, 6, 8)] * 3, cu_seqlens_q=ENDS, cu_seqlens_k=ENDS),
        ["cu_seqlens came with a batch of 2", "batch of 1"],
    ),
    "late begin": (lambda: packed(ENDS + 1), [r"cu_seqlens_q\[0\] is 1; it must begin at 0"]),
    "falling offsets": (
        lambda: packed(ENDS, torch.tensor([0, 7, 6])),
        [r"cu_seqlens_k\[2\] is 6 after 7; offsets must rise"],
    ),
    "empty sequence": (
        lambda: packed(torch.tensor([0, 6, 6])),
        [r"cu_seqlens_q\[2\] is 6 after 6"],
    ),
    "early end": (
        lambda: packed(torch.tensor([0, 2, 5])),
        [r"cu_seqlens_q\[2\] is 5, the last", "tokens, 6"],
    ),
    "floating widths": (lambda: gridded(ENDS[1:].float()), ["grid_widths is Float"]),
    "rank of widths": (
        lambda: gridded(torch.ones(2, 3).long()),
        [r"grid_widths has sizes \[2, 3\]", r"\(images, 2\) for q and for k"],
    ),
    "number of widths": (lambda: gridded(ENDS), ["grid_widths has 3 rows for 2 images"]),
    "no width": (
        lambda: gridded(ENDS[:2]),
        [r"grid_widths\[0\] is 0; it must be the number of tokens"],
    ),
    "widths unasked": (
        lambda: packed(rope="1d", grid_widths=ENDS[1:]),
        ['rope is "1d" but grid_widths is given', 'set rope="2d"'],
    ),
    "short table of a sequence": (
        lambda: packed(rope="table", rope_table=[TABLE[:3], TABLE[:3]]),
        ["table of 3 rows for 4 tokens"],
    ),
    "state of other sequences": (
        lambda: torch.ops.mala.attention_backward(
            X, heads(1, 2, 88), X, X, X, cu_seqlens_q=ENDS, cu_seqlens_k=ENDS
        ),
        [r"state has sizes \[1, 2, 88\] but these inputs need \[2, 2, 88\]"],
    ),
    "foreign state": (
        lambda: torch.ops.mala.attention_backward(X, heads(1, 2, 7), X, X, X),
        ["state"],
    ),
    "wrong out gradient": (
        lambda: torch.ops.mala.attention_backward(X[:, :1], heads(1, 2, 88), X, X, X),
        ["1", "2"],
    ),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_call_is_explained(name):
    call, parts = WRONG_CALLS[name]
    with pytest.raises(RuntimeError, match=".*".join([r"\[.*attention.*\] ", *parts])):
        call()


EMPTY = {
    "no batch": (0, 2, 6, 8),
    "no heads": (1, 0, 6, 8),
    "no tokens": (1, 2, 0, 8),
    "no head size": (1, 2, 6, 0),
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", EMPTY)
def test_empty_sizes_are_refused_with_and_without_memory(name, causal, device):
    x = heads(*EMPTY[name]).to(device)
    with pytest.raises(RuntimeError, match=r"\[mala::attention\w*\] q has .* at least (1|8)"):
        attention(x, x, x, causal=causal)
