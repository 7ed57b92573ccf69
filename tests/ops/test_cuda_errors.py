"""What torch.ops.mala.* says on a GPU to a call that cannot work, and that the process goes on."""

import pytest
import torch

attention = torch.ops.mala.attention


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


ENDS = torch.tensor([0, 2, 6])

# What is called, and what the error says: what came, then what is needed.
WRONG_CALLS = {
    "keys on the CPU": (
        lambda: attention(x(), x(device="cpu"), x()),
        ["k is Float on cpu but q is Float on cuda:0", "one type and device"],
    ),
    "queries on the CPU": (
        lambda: attention(x(device="cpu"), x(), x()),
        ["k is Float on cuda:0 but q is Float on cpu"],
    ),
    "gate on the CPU": (
        lambda: attention(x(), x(), x(), gate=x(device="cpu")),
        ["gate is Float on cpu but q is Float on cuda:0"],
    ),
    "table on the CPU": (
        lambda: attention(x(), x(), x(), rope="table", rope_table=table("cpu")),
        ["rope_table holds Float on cpu", "on cuda:0"],
    ),
    "state on the CPU": (
        lambda: torch.ops.mala.attention_backward(x(), state().cpu(), x(), x(), x()),
        ["state is Float on cpu", "must be Float on cuda:0"],
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
        ["v", "5", "6", r"tokens of sizes \[2, 2, 6, 8\], Float on cuda:0"],
    ),
    "a count of 0": (
        lambda: attention(x(), x(), x(), key_lengths=torch.tensor([6, 0], device="cpu")),
        [r"key_lengths\[1\] is 0", "Float on cuda:0"],
    ),
    "no tokens": (lambda: attention(*[heads(2, 2, 0, 8)] * 3), ["q has", "at least 1"]),
}

# What GPUs do not have, with what the error says.
MISSING = {
    "attention": (
        lambda: attention(*[x(dtype=torch.double)] * 3),
        ["Double on cuda:0", "float32, bfloat16 and float16", r"\.float\(\)", r"\.cpu\(\)"],
    ),
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
    call, parts = MISSING[name]
    expect_error(call, NotImplementedError, name, parts)


def test_memory_that_runs_out_is_explained(gpu):
    """The inputs are small and expanded; out and its like would not fit on any GPU."""
    q = torch.zeros(1, 1, 1, 256, dtype=torch.float16).expand(2**12, 2**5, 2**20, 256)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        attention(q, q, q)
    text = str(caught.value)
    assert "[mala::attention] memory ran out" in text
    assert "[4096, 32, 1048576, 256], Half on cuda:0" in text
    x = torch.randn(1, 1, 6, 8)
    assert attention(x, x, x).isfinite().all()
