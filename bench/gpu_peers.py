#!/usr/bin/env python3
"""The operator on a GPU beside its peers, in one run: the published formula in PyTorch, the same
under torch.compile, and softmax attention (SDPA).

    bench/gpu_peers.py --library build/dev/lib/libmala_ops.so [--no-compile] [--csv FILE]

bfloat16, from raw q, k, v with phi and RoPE. Results are compared with float64 arithmetic on some
of the heads before anything is timed; softmax computes something else and is only timed. Times are
those of the device: a captured graph, replayed, the median. `limit` is a copy that moves as many
bytes as the operator must: four tensors, with backward eleven; for decoding, the state.
"""

import argparse
import datetime
import math
import platform
import statistics
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

# Form, batch, heads, tokens, head size.
CASES = [
    ("bidirectional", 64, 1, 3136, 64),
    ("bidirectional", 64, 1, 3136, 96),
    ("bidirectional", 4, 16, 16384, 64),
    ("bidirectional", 4, 8, 16384, 128),
    ("bidirectional", 256, 6, 256, 64),
    ("bidirectional", 64, 2, 784, 64),
    ("bidirectional", 1, 1, 65536, 64),
    ("bidirectional", 1, 2, 16384, 64),
    ("causal", 4, 16, 8192, 64),
    ("causal", 4, 8, 8192, 128),
    ("decode", 1, 16, 1, 64),
    ("decode", 64, 16, 1, 64),
]
COLUMNS = ["form", "pass", "batch", "heads", "tokens", "dim", "impl", "ms", "limit_ms", "ratio", "error"]
ALLOWED_ERROR = 0.05  # of a typical value: the formula in bfloat16 rounds at every step


def width_of(tokens):
    """Of an image with so many tokens, as square as it can be."""
    height = next(h for h in range(math.isqrt(tokens), 0, -1) if tokens % h == 0)
    return tokens // height


def angles_of(form, tokens, dim):
    position = torch.arange(tokens, device="cuda", dtype=torch.double)
    if form == "causal":
        exponents = 2 * torch.arange(dim // 2, device="cuda", dtype=torch.double) / dim
        return torch.outer(position, 10000**-exponents)
    quarter, width = dim // 4, width_of(tokens)
    frequencies = 10000 ** (-torch.arange(quarter, device="cuda", dtype=torch.double) / (quarter - 1))
    rows, columns = torch.div(position, width, rounding_mode="floor"), position % width
    return torch.cat([torch.outer(rows, frequencies), torch.outer(columns, frequencies)], dim=1)


def rotated(x, cos, sin):
    x0, x1 = x[..., 0::2], x[..., 1::2]
    return torch.stack([x0 * cos - x1 * sin, x1 * cos + x0 * sin], dim=-1).flatten(-2)


def formula(q, k, v, cos, sin):
    """The published operator, bidirectional, in PyTorch."""
    scale = q.shape[-1] ** -0.5
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    s = a @ b.mean(dim=-2, keepdim=True).transpose(-1, -2) * scale
    a, b = rotated(a, cos, sin), rotated(b, cos, sin)
    state = (b.transpose(-1, -2) * (scale / k.shape[-2]) ** 0.5) @ (v * (scale / k.shape[-2]) ** 0.5)
    return a @ state * (1 + 1 / (s + 1e-6)) - s * v.mean(dim=-2, keepdim=True)


def causal_formula(q, k, v, cos, sin):
    """Of short texts: over the full matrix of weights."""
    n, scale = q.shape[-2], q.shape[-1] ** -0.5
    seen = torch.ones(n, n, dtype=q.dtype, device=q.device).tril()
    keys = seen.sum(-1, keepdim=True)
    a, b = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    s = (scale / keys * (a @ b.transpose(-1, -2)) * seen).sum(-1, keepdim=True)
    scores = scale / keys * (rotated(a, cos, sin) @ rotated(b, cos, sin).transpose(-1, -2)) * seen
    gain = 1 + 1 / (s + 1e-6)
    shift = gain * scores.sum(-1, keepdim=True) - 1
    return (gain * scores - shift * seen / keys) @ v


def device_ms(call, repeats=15):
    """Of a captured graph, or of calls one by one where something cannot be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[2:])


def copy_ms(moved_bytes):
    source = torch.empty(moved_bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return device_ms(lambda: target.copy_(source))


def contenders(form, tokens, dim, compiled):
    angles = angles_of(form, tokens, dim)
    cos, sin = (x.to(torch.bfloat16) for x in (angles.cos(), angles.sin()))
    causal = form == "causal"
    rope = {"rope": "1d"} if causal else {"rope": "2d", "grid_width": [width_of(tokens)] * 2}
    calls = {"mala": lambda q, k, v: torch.ops.mala.attention(q, k, v, causal=causal, **rope)}
    if not causal:
        calls["published"] = lambda q, k, v: formula(q, k, v, cos, sin)
        if compiled:
            calls["compiled"] = torch.compile(calls["published"])
    calls["sdpa"] = lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=causal)
    return calls


def error_of(call, form, inputs):
    """Of the first head, against float64; of a text, its first tokens."""
    tokens = min(inputs[0].shape[2], 2048) if form == "causal" else inputs[0].shape[2]
    x = [t[:1, :1, :tokens].double() for t in inputs]
    angles = angles_of(form, tokens, x[0].shape[-1])
    exact = (causal_formula if form == "causal" else formula)(*x, angles.cos(), angles.sin())
    out = call(*inputs)[:1, :1, :tokens].double()
    return ((out - exact).square().mean() / exact.square().mean()).sqrt().item()


def attention_rows(form, batch, heads, tokens, dim, compiled):
    inputs = [torch.randn(batch, heads, tokens, dim, device="cuda", dtype=torch.bfloat16)
              for _ in range(3)]
    leaves = [x.clone().requires_grad_() for x in inputs]
    of_out = torch.randn_like(inputs[2])
    tensor_bytes = inputs[0].numel() * 2
    # A copy of very many bytes may be slower than its parts.
    limit = copy_ms(4 * tensor_bytes)
    limits = {"forward": limit, "forward_backward": min(copy_ms(11 * tensor_bytes), limit * 11 / 4)}
    for name, call in contenders(form, tokens, dim, compiled).items():
        error = None if name == "sdpa" else error_of(call, form, inputs)
        if error is not None and not error <= ALLOWED_ERROR:
            yield {"impl": name, "pass": "wrong", "error": error}
            continue

        def forward(call=call):
            with torch.no_grad():
                call(*inputs)

        def forward_backward(call=call):
            torch.autograd.grad(call(*leaves), leaves, of_out)

        for which, run in (("forward", forward), ("forward_backward", forward_backward)):
            yield {"impl": name, "pass": which, "error": error, "ms": device_ms(run),
                   "limit_ms": limits[which]}


def decode_rows(batch, heads, dim):
    token = [torch.randn(batch, heads, 1, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    state = torch.zeros(batch, heads, dim * dim + 3 * dim, device="cuda", dtype=torch.double)
    count = torch.zeros(batch, device="cuda", dtype=torch.long)
    step = torch.ops.mala.attention_step
    out = step(*token, state, count, rope="1d")
    error = ((out - token[2]).float().square().mean() / token[2].float().square().mean()).sqrt().item()
    if not error <= ALLOWED_ERROR:  # a first token sees itself alone
        yield {"impl": "mala", "pass": "wrong", "error": error}
        return
    ms = device_ms(lambda: step(*token, state, count, rope="1d"), repeats=50)
    yield {"impl": "mala", "pass": "forward", "error": error, "ms": ms,
           "limit_ms": copy_ms(2 * state.numel() * 8)}


def text(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", required=True, help="libmala_ops.so")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes minutes")
    parser.add_argument("--csv", help="also write the table to this file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("[gpu_peers] torch finds no GPU; run this where there is one")
    torch.ops.load_library(arguments.library)
    torch.manual_seed(7)
    lines = [f"# date: {datetime.date.today()}", f"# machine: {torch.cuda.get_device_name()}",
             f"# torch {torch.__version__}, Python {platform.python_version()}", ",".join(COLUMNS)]
    print("\n".join(lines))
    wrong = 0
    for form, batch, heads, tokens, dim in CASES:
        rows = (decode_rows(batch, heads, dim) if form == "decode" else
                attention_rows(form, batch, heads, tokens, dim, not arguments.no_compile))
        for row in rows:
            row |= {"form": form, "batch": batch, "heads": heads, "tokens": tokens, "dim": dim}
            if "ms" in row:
                row["ratio"] = row["ms"] / row["limit_ms"]
            wrong += row["pass"] == "wrong"
            lines.append(",".join(text(row.get(column)) for column in COLUMNS))
            print(lines[-1], flush=True)
        torch.cuda.empty_cache()
    if arguments.csv:
        with open(arguments.csv, "w") as file:
            file.write("\n".join(lines) + "\n")
    sys.exit(f"[gpu_peers] {wrong} results are wrong and were not timed" if wrong else 0)


if __name__ == "__main__":
    main()
