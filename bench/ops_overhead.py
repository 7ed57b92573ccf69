#!/usr/bin/env python3
"""What a call of mala.attention costs the host: time until it returns, on a GPU before the work is done.

    MALA_OPS_LIBRARY=build/dev/lib/libmala_ops.so bench/ops_overhead.py [--device cuda] [--csv FILE]

Beside it, in the same run: the operator that it calls, from Python and from C++ (a loop in
TorchScript's interpreter; `block` as MAViT's blocks call it), torch's softmax attention, and one
addition, the least that any operator costs. On the CPU a call returns when its work is done, so there
the times hold that work too; the first shape has next to none.
"""

import argparse
import contextlib
import datetime
import pathlib
import platform
import statistics
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import mala  # noqa: E402

SHAPES = [(1, 1, 8, 8), (1, 1, 64, 64), (1, 2, 1024, 64), (16, 2, 256, 64)]  # B, H, N, D
COLUMNS = ["name", "pass", "batch", "heads", "tokens", "dim", "dtype", "device", "microseconds"]


def grid_of(q):
    return q.shape[2] // 4, 4


def contenders():
    """What is called with three tensors."""
    attention = torch.ops.mala.attention
    return {
        "python": mala.attention,
        "python_rope": lambda q, k, v: mala.attention(q, k, v, rope="1d"),
        "python_block": lambda q, k, v: mala.attention(q, k, v, rope=grid_of(q), local=q, gate=v),
        "mala": attention,
        "mala_rope": lambda q, k, v: attention(q, k, v, rope="1d"),
        "sdpa": scaled_dot_product_attention,
        "add": lambda q, k, v: q + k,
    }


def passes(function, shape, device):
    """Each pass as a name, the mode it runs in, and a call."""
    q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out_gradient = torch.ones_like(function(q, k, v))
    yield "inference", torch.no_grad(), lambda: function(q, k, v)
    yield "forward", contextlib.nullcontext(), lambda: function(*leaves)

    def forward_backward():
        torch.autograd.grad(function(*leaves), leaves, out_gradient, allow_unused=True)

    yield "forward_backward", contextlib.nullcontext(), forward_backward


@torch.jit.script
def call_often(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        q = torch.ops.mala.attention(q, k, v)  # each needs the last: none can be left out
    return q


@torch.jit.script
def call_block_often(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        q = torch.ops.mala.attention(q, k, v, local=q, gate=v, rope="2d", grid_width=[4, 4])
    return q


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def microseconds(call, device, calls, rounds):
    def call_all():
        for _ in range(calls):
            call()

    return microseconds_of(call_all, device, calls, rounds)


def microseconds_of(call_all, device, calls, rounds):
    """The median over rounds, each with an idle GPU at its beginning and so few calls that its queue
    never fills, since a full queue would make the host wait."""
    times = []
    for _ in range(rounds + 2):
        wait(device)
        begin = time.perf_counter()
        call_all()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    wait(device)
    return statistics.median(times[2:])  # the first ones warm up


def measure(device, calls, rounds):
    for shape in SHAPES:
        q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
        for name, loop in (("c++", call_often), ("c++_block", call_block_often)):
            with torch.no_grad():
                cost = microseconds_of(lambda: loop(q, k, v, calls), device, calls, rounds)
            yield [name, "inference", *shape, "bfloat16", device, f"{cost:.2f}"]
        for name, function in contenders().items():
            for kind, mode, call in passes(function, shape, device):
                with mode:
                    cost = microseconds(call, device, calls, rounds)
                yield [name, kind, *shape, "bfloat16", device, f"{cost:.2f}"]


def head(device, commit):
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return [
        f"# date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, commit: {commit}",
        f"# machine: {machine}; python {platform.python_version()}, torch {torch.__version__}",
    ]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--commit", default="unknown", help="what the library was built from")
    parser.add_argument("--csv", help="also write the table to this file")
    parser.add_argument("--calls", type=int, default=50, help="calls in a round")
    parser.add_argument("--rounds", type=int, default=21)
    return parser.parse_args()


def main():
    given = arguments()
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit("[ops_overhead] torch finds no GPU; pass --device cpu, or check nvidia-smi")
    torch.set_num_threads(1)  # the calls are small; on a busy CPU threads would wait for each other
    lines = [*head(given.device, given.commit), ",".join(COLUMNS)]
    print("\n".join(lines), flush=True)
    for row in measure(given.device, given.calls, given.rounds):
        lines.append(",".join(map(str, row)))
        print(lines[-1], flush=True)
    if given.csv:
        with open(given.csv, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
