"""The operators as standard ones of torch: exact, for compilers and runtimes that know no others.

`decompositions()` is a table for torch.export's run_decompositions. The bidirectional form keeps its
linear cost; the causal one is written with the full triangle of weights.
"""

from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor

_FEATURES: dict[str, Callable[[Tensor], Tensor]] = {
    "elu1": lambda x: x.clamp(min=0) + x.clamp(max=0).exp(),
    "relu": torch.relu,
    "exp": torch.exp,
    "identity": lambda x: x,
}


def decompositions() -> dict[Any, Callable]:
    """What stands for torch.ops.mala.attention and the operators that it becomes when traced."""
    return {
        torch.ops.mala.attention.default: lambda *a, **k: attention(*a, **k),
        torch.ops.mala.attention_forward.default: _attention_forward,
        torch.ops.mala.attention_stateless.default: lambda *a, **k: attention(*a, **k),
        torch.ops.mala.attention_chunk.default: _attention_chunk,
        torch.ops.mala.attention_text.default: lambda *a, **k: attention(*a, causal=True, **k),
    }


def attention(q: Tensor, k: Tensor, v: Tensor, *, local: Optional[Tensor] = None,
              gate: Optional[Tensor] = None, rule: str = "mala", norm: Optional[str] = None,
              feature: str = "elu1", key_mean: bool = True, scale: Optional[float] = None,
              eps: float = 1e-6, rope: str = "none", rope_offset: Any = (0, 0),
              grid_width: Any = (0, 0), rope_table: Optional[list[Tensor]] = None,
              key_lengths: Optional[Tensor] = None, cu_seqlens_q: Optional[Tensor] = None,
              cu_seqlens_k: Optional[Tensor] = None, grid_widths: Optional[Tensor] = None,
              causal: bool = False) -> Tensor:
    """torch.ops.mala.attention: (B, H, N, D), (B, Hk, M, D), (B, Hk, M, E) -> (B, H, N, E)."""
    if cu_seqlens_q is not None or cu_seqlens_k is not None or grid_widths is not None:
        raise NotImplementedError("packed sequences have no form in standard operators; "
                                  "give each sequence a batch entry, with key_lengths")
    dtype = q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    a, b = _FEATURES[feature](q), _FEATURES[feature](k)
    tables = _rope_tables(a, b, rope, rope_offset, grid_width, rope_table)
    a_turned, b_turned = a, b
    if tables is not None:
        a_turned, b_turned = _rotate(a, tables[:2]), _rotate(b, tables[2:])
    norm = norm or ("balanced" if causal and rule == "mala" else "published")
    weigh = _causal if causal else _bidirectional
    counted, keys = _counts(k, key_lengths)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s, r, scores_v, v_mean = weigh(a, b, a_turned, b_turned, v, counted, keys, scale, key_mean)
    s = r if norm == "printed" else s
    gain, shift = _rule(rule, s, eps)
    if norm == "balanced":
        shift = gain * r - 1
    out = gain * scores_v - shift * v_mean
    out = out if local is None else out + local
    return (out if gate is None else out * gate).to(dtype)


def _rule(rule: str, s: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    if rule == "mala":
        return 1 + 1 / (s + eps), s
    if rule == "linear":
        return 1 / (s + eps), torch.zeros_like(s)
    return torch.ones_like(s), s - 1


def _counts(k: Tensor, key_lengths: Optional[Tensor]) -> tuple[Optional[Tensor], Any]:
    """Which keys count, (B, 1, M, 1), and how many, (B, 1, 1, 1)."""
    if key_lengths is None:
        return None, k.shape[2]
    lengths = key_lengths.to(k.device)
    counted = torch.arange(k.shape[2], device=k.device) < lengths[:, None]
    return counted[:, None, :, None], lengths.to(k.dtype)[:, None, None, None]


def _bidirectional(a: Tensor, b: Tensor, a_turned: Tensor, b_turned: Tensor, v: Tensor,
                   counted: Optional[Tensor], keys: Any, scale: float, key_mean: bool) -> tuple:
    """s and r (B, H, N, 1), the scores' sum of values (B, H, N, E), and their mean (B, H, 1, E)."""
    if counted is not None:  # not by a product: what lies beyond may be NaN
        b, b_turned, v = (torch.where(counted, x, torch.zeros_like(x)) for x in (b, b_turned, v))
    c = scale / keys if key_mean else scale
    s = c * (a @ b.sum(2, keepdim=True).transpose(2, 3))
    r = c * (a_turned @ b_turned.sum(2, keepdim=True).transpose(2, 3))
    return s, r, c * (a_turned @ (b_turned.transpose(2, 3) @ v)), v.sum(2, keepdim=True) / keys


def _causal(a: Tensor, b: Tensor, a_turned: Tensor, b_turned: Tensor, v: Tensor,
            counted: Optional[Tensor], keys: Any, scale: float, key_mean: bool) -> tuple:
    """The same over the keys up to each token's own; the mean is (B, H, N, E)."""
    tokens = a.shape[2]
    place = torch.arange(tokens, device=a.device)
    seen = (place[:, None] >= place[None]).to(a.dtype)[None, None]  # (1, 1, N, N)
    if counted is not None:
        b, b_turned, v = (torch.where(counted, x, torch.zeros_like(x)) for x in (b, b_turned, v))
        seen = seen * counted.to(a.dtype).transpose(2, 3)
    keys = seen.sum(-1, keepdim=True)  # (B or 1, 1, N, 1)
    c = scale / keys if key_mean else scale
    plain = c * (a @ b.transpose(2, 3)) * seen
    scores = c * (a_turned @ b_turned.transpose(2, 3)) * seen
    return plain.sum(-1, keepdim=True), scores.sum(-1, keepdim=True), scores @ v, seen @ v / keys


def _rope_tables(a: Tensor, b: Tensor, rope: str, offsets: Any, widths: Any,
                 given: Optional[list[Tensor]]) -> Optional[list[Tensor]]:
    """cos and sin for q, then for k, (tokens, D / 2) each."""
    if rope == "none":
        return None
    if rope == "table":
        four = list(given or []) * (1 if len(given or []) == 4 else 2)
        return [table[: x.shape[2]].to(a.dtype) for table, x in zip(four, (a, a, b, b))]
    result = []
    for side, x in enumerate((a, b)):
        place = torch.arange(x.shape[2], device=x.device) + offsets[side]
        turns = _angles(place, x.shape[3], widths[side] if rope == "2d" else None)
        result += [turns.cos().to(a.dtype), turns.sin().to(a.dtype)]
    return result


def _angles(place: Tensor, dim: int, width: Any) -> Tensor:
    """(tokens, D / 2) in double: by the place in a line, or by row and column."""
    if width is None:
        steps = torch.arange(dim // 2, dtype=torch.float64, device=place.device)
        return place.double()[:, None] * 10000.0 ** (-2 * steps / dim)
    quarter = dim // 4
    steps = torch.arange(quarter, dtype=torch.float64, device=place.device)
    frequencies = 10000.0 ** (-steps / max(quarter - 1, 1))
    rows, columns = place // width, place % width
    return torch.cat([x.double()[:, None] * frequencies for x in (rows, columns)], 1)


def _rotate(x: Tensor, table: list[Tensor]) -> Tensor:
    cos, sin = table
    pairs = x.unflatten(-1, (x.shape[-1] // 2, 2))
    x0, x1 = pairs[..., 0], pairs[..., 1]
    return torch.stack([x0 * cos - x1 * sin, x1 * cos + x0 * sin], -1).flatten(-2)


def _attention_forward(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The state is for the gradient alone, which an exported program has none of."""
    size = q.shape[3] * v.shape[3] + 2 * q.shape[3] + v.shape[3]
    return attention(q, k, v, **options), v.new_zeros(v.shape[0], v.shape[1], size)


def _attention_chunk(q: Tensor, k: Tensor, v: Tensor, *, state: Optional[Tensor] = None,
                     count: Optional[Tensor] = None, **options: Any
                     ) -> tuple[Tensor, Tensor, Tensor]:
    if state is not None or count is not None:
        raise NotImplementedError("attention that goes on from a state has no form in standard "
                                  "operators; export the whole text with causal=True")
    return attention(q, k, v, causal=True, **options), *_state_after(k, v, **options)


def _state_after(k: Tensor, v: Tensor, *, feature: str = "elu1", rope: str = "none",
                 rope_offset: Any = (0, 0), grid_width: Any = (0, 0),
                 rope_table: Optional[list[Tensor]] = None, key_lengths: Optional[Tensor] = None,
                 **_: Any) -> tuple[Tensor, Tensor]:
    """What a chunk leaves: S, the sums of features, plain and turned, and of values; and a count."""
    b, v = _FEATURES[feature](k.double()), v.double()
    tables = _rope_tables(b, b, rope, rope_offset, grid_width, rope_table)
    turned = b if tables is None else _rotate(b, tables[2:])
    counted, _keys = _counts(b, key_lengths)
    if counted is not None:
        b, turned, v = (torch.where(counted, x, torch.zeros_like(x)) for x in (b, turned, v))
    state = [(turned.transpose(2, 3) @ v).flatten(2), b.sum(2), turned.sum(2), v.sum(2)]
    count = torch.full((v.shape[0],), v.shape[2], dtype=torch.int64, device=v.device)
    return torch.cat(state, 2), count if key_lengths is None else key_lengths.to(count)
