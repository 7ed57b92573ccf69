"""Inputs for the tests: every option and every layout that a caller may hand over."""

import itertools

import torch

RULES = ["mala", "linear", "inline"]
NORMS = ["published", "printed", "balanced"]
FEATURES = ["elu1", "relu", "exp", "identity"]
ROPES = ["none", "1d", "2d", "table"]


def exact_types(device):
    """The types that are compared with the formula closely, the widest last: GPUs have no double."""
    return [torch.float] if device == "cuda" else [torch.float, torch.double]


def rope_options(rope, queries, keys, dim):
    """Offsets, widths and tables of their own for q and k, so that a mix-up shows."""
    if rope == "1d":
        return {"rope": rope, "rope_offset": [2, 1]}
    if rope == "2d":
        return {"rope": rope, "grid_width": [2, 3], "rope_offset": [1, 0]}
    if rope == "table":
        angles = [torch.rand(tokens, dim // 2) for tokens in (queries, keys)]
        return {"rope": rope, "rope_table": [f(x) for x in angles for f in (torch.cos, torch.sin)]}
    return {}


def all_options(queries, keys, dim):
    """Every rule, norm, feature and RoPE; key_mean, scale and eps change along."""
    grid = itertools.product(RULES, NORMS, FEATURES, ROPES)
    for i, (rule, norm, feature, rope) in enumerate(grid):
        yield {
            "rule": rule,
            "norm": norm,
            "feature": feature,
            "key_mean": i % 3 != 0,
            "scale": None if i % 2 else 0.3,
            "eps": 1e-6 if i % 5 else 0.1,
            **rope_options(rope, queries, keys, dim),
        }


def heads(batch, count, tokens, dim, dtype=torch.float):
    """Mostly positive, so that s stays off its pole also for relu and identity."""
    return torch.randn(batch, count, tokens, dim, dtype=dtype) * 0.4 + 0.6


def dense(x):
    return x.clone(memory_format=torch.contiguous_format)


def tokens_outside(x):
    return x.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)


def packed(x):
    """A slice of one wide projection (B, N, 4 H D), as a qkvo layer hands over."""
    batch, count, tokens, dim = x.shape
    wide = x.new_full((batch, tokens, 4 * count * dim), float("nan"))
    part = wide[..., count * dim : 2 * count * dim].view(batch, tokens, count, dim).transpose(1, 2)
    return part.copy_(x)


def channels_first(x):
    """A (B, C, H, W) image, whose tokens are neighbours in memory."""
    return x.transpose(2, 3).clone(memory_format=torch.contiguous_format).transpose(2, 3)


def channels_last(x):
    """The same image with its channels innermost, here of height 1."""
    batch, count, tokens, dim = x.shape
    image = x.transpose(2, 3).reshape(batch, count * dim, 1, tokens)
    image = image.clone(memory_format=torch.channels_last)
    return image.view(batch, count, dim, tokens).transpose(2, 3)


def ragged(x):
    """Every second row of wider ones that start off any alignment."""
    batch, count, tokens, dim = x.shape
    wide = x.new_full((batch, count, 2 * tokens, dim + 3), float("nan"))
    return wide[:, :, ::2, 1 : dim + 1].copy_(x)


LAYOUTS = [dense, tokens_outside, packed, channels_first, channels_last, ragged]


# Which tokens belong together, for inputs that lengths_inputs makes. The host reads lengths, so they
# are on the CPU wherever the tokens are.
LENGTHS = {
    "whole": {},
    "counted": {"key_lengths": torch.tensor([6, 1, 4])},
    "packed": {
        "cu_seqlens_q": torch.tensor([0, 3, 4, 9]),
        "cu_seqlens_k": torch.tensor([0, 2, 8, 9]),
    },
}


def lengths_inputs(kind, kv_heads=2, dtype=torch.double, dim=8):
    """q, k, v, local, gate of four query heads: a batch of three, or three packed in one."""
    batch, queries, keys = (1, 9, 9) if kind == "packed" else (3, 5, 6)
    sizes = [(4, queries, dim), (kv_heads, keys, dim), (kv_heads, keys, 16)]
    sizes += [(4, queries, 16)] * 2
    return [heads(batch, *size, dtype).requires_grad_() for size in sizes]


def lengths_rope(rope, dim=8):
    """As rope_options, with a width for each of the three sequences."""
    if rope == "2d":
        widths = torch.tensor([[2, 3], [1, 2], [3, 1]], device="cpu")
        return {"rope": rope, "rope_offset": [1, 0], "grid_widths": widths}
    if rope == "table":  # more rows than the longest sequence has tokens
        return rope_options(rope, 7, 7, dim)
    return rope_options(rope, 0, 0, dim)


# The same for causal calls, whose queries and keys are the same tokens.
CAUSAL_LENGTHS = {
    "whole": {},
    "counted": {"key_lengths": torch.tensor([6, 1, 4])},
    "packed": {"cu_seqlens_q": torch.tensor([0, 3, 4, 9])},
}


def causal_inputs(kind, kv_heads=2, dtype=torch.double, dim=8):
    """q, k, v, local, gate of four query heads: a batch of three, or three packed in one."""
    batch, tokens = (1, 9) if kind == "packed" else (3, 6)
    sizes = [(4, dim), (kv_heads, dim), (kv_heads, 16), (4, 16), (4, 16)]
    return [heads(batch, count, tokens, d, dtype).requires_grad_() for count, d in sizes]


def text_state(tokens, count=3, kv_heads=2, dtype=torch.double, dim=8, **options):
    """The state and count that `tokens` tokens of each of `count` sequences leave."""
    k, v = heads(count, kv_heads, tokens, dim, dtype), heads(count, kv_heads, tokens, 16, dtype)
    return torch.ops.mala.attention_chunk(k, k, v, **options)[1:]
