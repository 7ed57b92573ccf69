"""What torch.ops.mala.attention says to a call that cannot work."""

import pytest
import torch

attention = torch.ops.mala.attention


def heads(*sizes, dtype=torch.float):
    return torch.zeros(*sizes, dtype=dtype)


X = heads(1, 2, 6, 8)
TABLE = heads(6, 4)

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
    "half": (lambda: attention(*[X.bfloat16()] * 3), ["q is BFloat16", "float32 and float64"]),
    "integers": (lambda: attention(*[X.long()] * 3), ["q is Long", "float32 and float64"]),
    "mixed types": (lambda: attention(X, X.double(), X), ["k is Double", "q is Float"]),
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
        ["rope_table holds Double", "must be Float"],
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
