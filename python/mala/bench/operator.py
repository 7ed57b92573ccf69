"""The operator beside its formula in torch, eager and compiled, and beside softmax."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

import mala
from mala import decompose
from mala.bench.timing import milliseconds, table

# What rounding allows two ways of summing to differ by, for results of size one.
CLOSE = {torch.float32: 1e-3, torch.bfloat16: 5e-2}


def contenders() -> dict[str, Callable]:
    formula = lambda q, k, v, width: decompose.attention(
        q, k, v, rope="2d", grid_width=(width, width))
    compiled = torch.compile(formula, dynamic=False)
    return {
        "mala": lambda q, k, v, width: mala.attention(q, k, v, rope=(q.shape[2] // width, width)),
        "formula": formula,
        "compiled": compiled,
        "sdpa": lambda q, k, v, width: F.scaled_dot_product_attention(q, k, v),
    }


def compare(calls: dict[str, Callable], tensors: list, width: int) -> None:
    """A wrong result has no speed: those that compute the same must agree."""
    with torch.no_grad():
        wanted = calls["formula"](*(x.double() for x in tensors), width)
        for name in ("mala", "compiled"):
            error = (calls[name](*tensors, width).double() - wanted).abs().max().item()
            if not error <= CLOSE[tensors[0].dtype]:
                raise RuntimeError(f"{name} differs from the formula by {error:.1e}; "
                                   "its time means nothing")


def run(arguments: Any) -> str:
    device = torch.device(arguments.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    calls = contenders()
    rows = []
    for tokens in arguments.tokens:
        width = next(w for w in range(int(tokens**0.5), 0, -1) if tokens % w == 0)
        torch._dynamo.reset()
        q, k, v = (torch.randn(arguments.batch, arguments.heads, tokens, arguments.dim, dtype=dtype,
                               device=device) for _ in range(3))
        compare(calls, [q, k, v], width)
        for kind in ("forward", "with gradient"):
            row = [f"{tokens} tokens, {kind}"]
            for call in calls.values():
                timed = _timed(call, (q, k, v), width, kind)
                row.append(f"{milliseconds(timed, device, arguments.seconds):.3f}")
            rows.append(row)
    shape = f"({arguments.batch}, {arguments.heads}, N, {arguments.dim})"
    title = f"milliseconds, {shape} {dtype} on {device}"
    return title + "\n" + table(["", *calls], rows)


def _timed(call: Callable, tensors: tuple, width: int, kind: str) -> Callable[[], None]:
    if kind == "forward":
        def forward() -> None:
            with torch.no_grad():
                call(*tensors, width)
        return forward
    leaves = [x.detach().requires_grad_() for x in tensors]
    return lambda: torch.autograd.grad(call(*leaves, width).sum(), leaves)
