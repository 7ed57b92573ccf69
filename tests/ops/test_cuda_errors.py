"""What torch.ops.mala.* says on a GPU to a call that cannot work, and that the process goes on."""

import pytest
import torch

attention = torch.ops.mala.attention
attention_chunk = torch.ops.mala.attention_chunk
attention_step = torch.ops.mala.attention_step
attention_backward = torch.ops.mala.attention_backward
attention_chunk_backward = torch.ops.mala.attention_chunk_backward


def heads(*sizes, device="cuda", **options):
    return torch.ones(*sizes, device=device, **options)


def x(**options):
    return heads(2, 2, 6, 8, **options)


def state(dtype=torch.float):
    return heads(2, 2, 8 * 8 + 2 * 8 + 8, dtype=dtype)


def counts(device="cuda"):
    return torch.tensor([6, 6], device=device)


def table(device):
    return [heads(6, 4, device=device)] * 2


def token(**options):
    return heads(2, 2, 1, 8, **options)


ENDS = torch.tensor([0, 2, 6])
SIZES = r"tokens of sizes \[2, 2, 6, 8\], Float on cuda:0"
SIZES_OF_TOKEN = r"tokens of sizes \[2, 2, 1, 8\], Float on cuda:0"

# What is called, and what the error says: what came, then what is needed.
WRONG_CALLS = {
    "keys on the CPU": (
        lambda: attention(x(), x(device="cpu"), x()),
        ["k is Float on cpu but q is Float on cuda:0", "one type and device", SIZES],
    ),
    "queries on the CPU": (
        lambda: attention(x(device="cpu"), x(), x()),
        ["k is Float on cuda:0 but q is Float on cpu", r"\[2, 2, 6, 8\], Float on cpu"],
    ),
    "gate on the CPU": (
        lambda: attention(x(), x(), x(), gate=x(device="cpu")),
        ["gate is Float on cpu but q is Float on cuda:0"],
    ),
    "table on the CPU": (
        lambda: attention(x(), x(), x(), rope="table", rope_table=table("cpu")),
        ["rope_table holds Float on cpu", "on cuda:0", SIZES],
    ),
    "state on the CPU": (
        lambda: attention_backward(x(), state().cpu(), x(), x(), x()),
        ["state is Float on cpu", "must be Float on cuda:0"],
    ),
    "gradient on the CPU": (
        lambda: attention_backward(x(device="cpu"), state(), x(), x(), x()),
        ["out_gradient is Float on cpu but q is Float on cuda:0", SIZES],
    ),
    "keys of a chunk on the CPU": (
        lambda: attention_chunk(x(), x(device="cpu"), x()),
        ["k is Float on cpu but q is Float on cuda:0", SIZES],
    ),
    "state of a chunk on the CPU": (
        lambda: attention_chunk(x(), x(), x(), state=state(torch.double).cpu(), count=counts()),
        ["state is Double on cpu", "must be Double on cuda:0", SIZES],
    ),
    "count of a chunk elsewhere": (
        lambda: attention_chunk(x(), x(), x(), state=state(torch.double), count=counts("meta")),
        ["count is Long on meta", "must be Long on cuda:0 or the CPU", r"sizes \[2\]"],
    ),
    "gradient of a chunk on the CPU": (
        lambda: attention_chunk_backward(x(device="cpu"), None, x(), x(), x()),
        ["out_gradient is Float on cpu but q is Float on cuda:0", SIZES],
    ),
    "values of a step on the CPU": (
        lambda: attention_step(
            token(), token(), token(device="cpu"), state(torch.double), counts()
        ),
        ["v is Float on cpu but q is Float on cuda:0", SIZES_OF_TOKEN],
    ),
    "state of a step on the CPU": (
        lambda: attention_step(token(), token(), token(), state(torch.double).cpu(), counts()),
        ["state is Double on cpu", "must be Double on cuda:0", SIZES_OF_TOKEN],
    ),
    "lengths on the GPU": (
        lambda: attention(x(), x(), x(), key_lengths=counts()),
        ["key_lengths is on cuda:0", "the host reads", r"call .cpu\(\) on key_lengths"],
    ),
    "offsets on the GPU": (
        lambda: attention(
            *[heads(1, 2, 6, 8)] * 3, cu_seqlens_q=ENDS, cu_seqlens_k=ENDS.to("cuda")
        ),
        ["cu_seqlens_k is on cuda:0", r"call .cpu\(\) on cu_seqlens_k"],
    ),
    "widths on the GPU": (
        lambda: attention(x(), x(), x(), rope="2d", grid_widths=counts()),
        ["grid_widths is on cuda:0", r"call .cpu\(\) on grid_widths"],
    ),
    "lengths on the GPU for tokens on the CPU": (
        lambda: attention(*[x(device="cpu")] * 3, key_lengths=counts()),
        [r"key_lengths is on cuda:0 \(q on cpu\)"],
    ),
    "sizes": (
        lambda: attention(x(), x(), heads(2, 2, 5, 8)),
        ["v", "5", "6", SIZES],
    ),
    "a count of 0": (
        lambda: attention(x(), x(), x(), key_lengths=torch.tensor([6, 0], device="cpu")),
        [r"key_lengths\[1\] is 0", "Float on cuda:0"],
    ),
    "no tokens": (lambda: attention(*[heads(2, 2, 0, 8)] * 3), ["q has", "at least 1"]),
}

# What GPUs do not have.
MISSING = {
    "attention": lambda x: attention(x, x, x),
    "attention_backward": lambda x: attention_backward(x, state(torch.double), x, x, x),
    "attention_chunk": lambda x: attention_chunk(x, x, x),
    "attention_chunk_backward": lambda x: attention_chunk_backward(x, None, x, x, x),
    "attention_step": lambda x: attention_step(x, x, x, state(torch.double), counts()),
}


def expect_error(call, kind, operator, parts):
    with pytest.raises(kind, match=".*".join([rf"\[mala::{operator}\] ", *parts])):
        call()
    q = torch.randn(1, 1, 6, 8, device="cuda")  # the process goes on
    assert attention(q, q, q).isfinite().all()


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_call_is_explained(gpu, name):
    call, parts = WRONG_CALLS[name]
    expect_error(call, RuntimeError, r"attention\w*", parts)


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_said(gpu, name):
    parts = ["Double on cuda:0", "float32, bfloat16 and float16", r"\.float\(\)", r"\.cpu\(\)"]
    parts.append(r"tokens of sizes \[2, 2, 1, 8\], Double on cuda:0")
    expect_error(lambda: MISSING[name](token(dtype=torch.double)), NotImplementedError, name, parts)


def huge(batch, heads, tokens):
    """Small and expanded."""
    return torch.zeros(1, 1, 1, 256, dtype=torch.float16).expand(batch, heads, tokens, 256)


def state_of_one(dtype):
    return torch.zeros(1, 1, 256 * 256 + 3 * 256, dtype=dtype)


# Calls for queries of some sizes, whose results and their like would not fit on any GPU.
TOO_LARGE = {
    "attention": ((2**12, 2**5, 2**20), lambda q: attention(q, q, q)),
    "attention_backward": (
        (1, 2**15, 2**20),
        lambda q: attention_backward(q, state_of_one(torch.float), q, *[q[:, :1]] * 2),
    ),
    "attention_chunk": ((2**12, 2**5, 2**20), lambda q: attention_chunk(q, q, q)),
    "attention_chunk_backward": (
        (1, 2**15, 2**20),
        lambda q: attention_chunk_backward(q, None, q, *[q[:, :1]] * 2),
    ),
    "attention_step": (
        (1, 2**30, 1),
        lambda q: attention_step(
            q, *[q[:, :1]] * 2, state_of_one(torch.double), torch.zeros(1, dtype=torch.long)
        ),
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_memory_that_runs_out_is_explained(gpu, name):
    sizes, call = TOO_LARGE[name]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        call(huge(*sizes))
    text = str(caught.value)
    assert f"[mala::{name}] memory ran out" in text
    assert f"{[*sizes, 256]}, Half on cuda:0" in text
    x = torch.randn(1, 1, 6, 8)
    assert attention(x, x, x).isfinite().all()
