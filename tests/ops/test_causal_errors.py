"""What causal attention in torch.ops.mala says to a call that cannot work."""

import pytest
import torch

attention = torch.ops.mala.attention
attention_chunk = torch.ops.mala.attention_chunk
attention_step = torch.ops.mala.attention_step

X = torch.zeros(2, 2, 6, 8)
STATE = torch.zeros(2, 2, 8 * 8 + 2 * 8 + 8, dtype=torch.double)
COUNT = torch.zeros(2, dtype=torch.long)
ENDS = torch.tensor([0, 2, 6])
TABLE = torch.zeros(6, 4)


def chunk(state=STATE, count=COUNT, x=X, **options):
    return attention_chunk(x, x, x, state=state, count=count, **options)


def step(state=STATE, count=COUNT, x=X[:, :, :1], **options):
    return attention_step(x, x, x, state, count, **options)


def packed(**options):
    return attention(X[:1], X[:1], X[:1], causal=True, **options)


# What is called, and what the error says: what came, then what is needed.
WRONG_CALLS = {
    "tokens": (
        lambda: attention(X, X[:, :, :5], X[:, :, :5], causal=True),
        ["q has 6 tokens but k has 5", "state"],
    ),
    "mixed types": (lambda: attention_chunk(X, X.double(), X), ["k is Double", "q is Float"]),
    "mixed devices": (lambda: attention_chunk(X, X, X.to("meta")), ["v is Float on meta"]),
    "integers": (lambda: chunk(x=X.long()), ["q is Long", "float64 work"]),
    "rank": (lambda: chunk(x=X[0]), [r"q has sizes \[2, 6, 8\]", "four dimensions"]),
    "norm": (lambda: chunk(norm="x"), ['norm is "x"; valid are "published"']),
    "state alone": (lambda: chunk(count=None), ["state came without count", "pass both"]),
    "count alone": (lambda: chunk(state=None), ["count came without state", "pass both"]),
    "type of state": (
        lambda: chunk(STATE.float()),
        ["state is Float on cpu", "must be Double", r"\[2, 2, 88\]", "attention_chunk returned"],
    ),
    "device of state": (lambda: chunk(STATE.to("meta")), ["state is Double on meta", "on cpu"]),
    "rank of state": (lambda: chunk(STATE[0]), [r"sizes \[2, 88\]", r"sizes \[2, 2, 88\]"]),
    "size of state": (
        lambda: chunk(STATE[..., :80]),
        [r"state has sizes \[2, 2, 80\] but these inputs need \[2, 2, 88\]"],
    ),
    "heads of state": (lambda: chunk(STATE[:, :1]), [r"\[2, 1, 88\]", r"need \[2, 2, 88\]"]),
    "batch of state": (lambda: chunk(STATE[:1]), [r"\[1, 2, 88\]", r"need \[2, 2, 88\]"]),
    "type of count": (lambda: chunk(count=COUNT.int()), ["count is Int", "must be Long"]),
    "device of count": (lambda: chunk(count=COUNT.to("meta")), ["count is Long on meta", "cpu"]),
    "rank of count": (lambda: chunk(count=COUNT[:, None]), [r"sizes \[2, 1\]", r"sizes \[2\]"]),
    "number of counts": (lambda: chunk(count=COUNT[:1]), ["count has 1 numbers for 2 sequences"]),
    "negative count": (lambda: chunk(count=COUNT - 1), ["count 0 of the state is -1", "0 to 2"]),
    "absurd count": (lambda: chunk(count=COUNT + 2**50), ["count 0 of the state is 1125"]),
    "short table": (
        lambda: chunk(count=COUNT + 1, rope="table", rope_table=[TABLE, TABLE]),
        ["table of 6 rows", "7 tokens"],
    ),
    "key lengths": (
        lambda: chunk(key_lengths=torch.tensor([7, 1])),
        [r"key_lengths\[0\] is 7; each must be 1 to 6"],
    ),
    "no keys": (lambda: chunk(key_lengths=torch.tensor([1, 0])), [r"key_lengths\[1\] is 0"]),
    "falling offsets": (
        lambda: packed(cu_seqlens_q=torch.tensor([0, 4, 3, 6])),
        [r"cu_seqlens_q\[2\] is 3 after 4"],
    ),
    "early end": (lambda: packed(cu_seqlens_q=ENDS[:2]), [r"cu_seqlens_q\[1\] is 2, the last"]),
    "offsets of keys alone": (
        lambda: packed(cu_seqlens_k=ENDS),
        ["cu_seqlens_k came without cu_seqlens_q"],
    ),
    "offsets that differ": (
        lambda: packed(cu_seqlens_q=ENDS, cu_seqlens_k=torch.tensor([0, 3, 6])),
        ["cu_seqlens_k differ from cu_seqlens_q"],
    ),
    "state of other sequences": (
        lambda: attention_chunk(
            X[:1], X[:1], X[:1], cu_seqlens_q=torch.tensor([0, 1, 2, 6]), state=STATE, count=COUNT
        ),
        [r"\[2, 2, 88\] but these inputs need \[3, 2, 88\]"],
    ),
    "state gradient": (
        lambda: torch.ops.mala.attention_chunk_backward(X, STATE.float(), X, X, X),
        ["state_gradient is Float", "must be Double"],
    ),
    "out gradient": (
        lambda: torch.ops.mala.attention_chunk_backward(X[:, :1], None, X, X, X),
        ["out_gradient has shape", r"\(2, 2, 6, 8\)"],
    ),
    "many tokens in a step": (
        lambda: step(x=X),
        ["q has 6 tokens; a step takes one of each sequence: use attention_chunk"],
    ),
    "type of a step's state": (lambda: step(STATE.float()), ["state is Float", "must be Double"]),
    "strided state of a step": (
        lambda: step(torch.cat([STATE, STATE], dim=2)[..., :88]),
        ["state has sizes", r"strides \[352, 176, 1\]", "must be contiguous"],
    ),
    "strided count of a step": (
        lambda: step(count=torch.zeros(2, 2, dtype=torch.long)[:, 0]),
        ["count has sizes", "must be contiguous"],
    ),
    "count of a step elsewhere": (
        lambda: step(STATE.to("meta"), COUNT, X[:, :, :1].to("meta")),
        ["count is Long on cpu", "must be Long on meta with"],
    ),
    "damaged count of a step": (lambda: step(count=COUNT - 5), ["count 0 of the state is -5"]),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_call_is_explained(name):
    call, parts = WRONG_CALLS[name]
    with pytest.raises(RuntimeError, match=".*".join([r"\[mala::attention\w*\] ", *parts])):
        call()


def test_a_refused_step_changes_nothing():
    state, count = torch.rand_like(STATE), torch.tensor([3, -1])
    kept = state.clone(), count.clone()
    with pytest.raises(RuntimeError, match="count 1 of the state is -1"):
        step(state, count)
    assert torch.equal(state, kept[0]) and torch.equal(count, kept[1])


def test_a_count_stays_on_the_cpu():
    """Wherever the tokens are: nobody has to wait for it there."""
    _, state, count = chunk(STATE.to("meta"), COUNT, X.to("meta"))
    assert state.device.type == "meta" and count.device.type == "cpu"
