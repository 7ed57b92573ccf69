"""mala.attention and its causal relatives: torch.ops.mala.* with Python's manners.

Letters: B batch, H heads of q, Hk heads of k and v (Hk divides H), N queries, M keys, D head size
of q and k, E head size of v; D and E are multiples of 8 up to 256.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mala import _functional
from mala._arguments import (
    Offsets,
    Rope,
    check_grid,
    check_packed_grids,
    check_tensors,
    offset_options,
    raise_naturally,
    rope_options,
    without_nothing,
)

# What need not be said: the dispatcher takes microseconds to read arguments.
_USUAL = ("mala", "elu1", 1e-6, False, True)
_has_transforms = torch._C._are_functorch_transforms_active
_attention = torch.ops.mala.attention.default
_chunk = torch.ops.mala.attention_chunk.default
_step = torch.ops.mala.attention_step.default


class AttentionState(NamedTuple):
    """What a causal call leaves for the next: of one size, however long the text is."""

    sums: Tensor  # (sequences, Hk, D * E + 2 * D + E), float64
    count: Tensor  # (sequences), int64: the keys so far

    def detach(self) -> "AttentionState":
        """The same numbers, through which no gradient flows."""
        return AttentionState(self.sums.detach(), self.count)

    def clone(self) -> "AttentionState":
        """A copy, to go on from here more than once: attention_step changes states in place."""
        return AttentionState(self.sums.clone(), self.count.clone())


# States are tensors and nothing else, so torch.load may make them without executing anything.
torch.serialization.add_safe_globals([AttentionState])


def attention(q: Tensor, k: Tensor, v: Tensor, *, rule: str = "mala", feature: str = "elu1",
              rope: Rope = None, scale: Optional[float] = None, eps: float = 1e-6,
              causal: bool = False, norm: Optional[str] = None, key_mean: bool = True,
              key_lengths: Optional[Tensor] = None, cu_seqlens: Offsets = None,
              local: Optional[Tensor] = None, gate: Optional[Tensor] = None) -> Tensor:
    """Linear attention that keeps the magnitude of queries: (attention + local) * gate.

    Args:
        q: (B, H, N, D); k: (B, Hk, M, D); v: (B, Hk, M, E); any strides, all of one type: float32,
            bfloat16, float16 or float64.
        rule: "mala", "linear" or "inline".
        feature: "elu1", "relu", "exp" or "identity", applied to q and k.
        rope: None; "1d" for text; (rows, columns) for images, or a list with one such pair for each
            packed image; (cos, sin), each float32 (tokens, D / 2).
        scale: of the scores; None is D ** -0.5.
        eps: added to a query's magnitude before dividing by it.
        causal: whether a token sees the keys up to its own alone; then N = M.
        norm: "published", "printed" or "balanced"; None is "published", and "balanced" for the
            causal form of the rule "mala".
        key_mean: whether scores are divided by the number of keys.
        key_lengths: (B) int64 on the CPU: how many keys of each batch entry count.
        cu_seqlens: (S + 1) int64 on the CPU: where each of S sequences begins that are packed into
            a batch of 1, and the end; or a pair of such, for q and for k.
        local, gate: (B, H, N, E).

    Returns:
        (B, H, N, E), of q's type.

    Raises:
        TypeError, ValueError: what came, what is needed and what to try.
        NotImplementedError: on devices that have no kernels for this call.
    """
    check_tensors(q=q, k=k, v=v)
    options = {}
    if rope is not None:
        options = rope_options(rope)
        if cu_seqlens is not None:
            check_packed_grids(rope, cu_seqlens)
        elif q.dim() == k.dim() == 4:
            check_grid(rope, q=q.shape[2], k=k.shape[2])
    if cu_seqlens is not None:
        options.update(offset_options(cu_seqlens))
    if (rule, feature, eps, causal, key_mean) != _USUAL:
        options.update(rule=rule, feature=feature, eps=eps, causal=causal, key_mean=key_mean)
    if norm is not None or key_lengths is not None or scale is not None:
        options.update(without_nothing({"norm": norm, "key_lengths": key_lengths, "scale": scale}))
    if local is not None or gate is not None:
        options.update(local=local, gate=gate)
    call = _attention
    if not torch.compiler.is_compiling() and _has_transforms():
        call = _functional.attention
    try:
        return call(q, k, v, **options)
    except RuntimeError as error:
        raise_naturally(error)


def attention_chunk(q: Tensor, k: Tensor, v: Tensor, state: Optional[AttentionState] = None, *,
                    rule: str = "mala", feature: str = "elu1", rope: Rope = None,
                    scale: Optional[float] = None, eps: float = 1e-6, norm: Optional[str] = None,
                    key_mean: bool = True, key_lengths: Optional[Tensor] = None,
                    cu_seqlens: Offsets = None, local: Optional[Tensor] = None,
                    gate: Optional[Tensor] = None) -> tuple[Tensor, AttentionState]:
    """Causal attention to the tokens of a chunk and to all that came before it.

    Args:
        q: (B, H, N, D); k: (B, Hk, N, D); v: (B, Hk, N, E).
        state: what the chunk before returned; None at the beginning. RoPE goes on from its count.
        The others are those of `attention`.

    Returns:
        out (B, H, N, E), and the state after this chunk. Gradients flow through states; `detach`
        one to stop them there.
    """
    check_tensors(q=q, k=k, v=v)
    sums, count = _parts(state)
    try:
        options = {"norm": norm, "scale": scale, "key_lengths": key_lengths, "state": sums,
                   "count": count, "local": local, "gate": gate, **rope_options(rope),
                   **offset_options(cu_seqlens)}
        out, sums, count = _chunk(q, k, v, rule=rule, feature=feature, eps=eps, key_mean=key_mean,
                                  **without_nothing(options))
    except RuntimeError as error:
        raise_naturally(error)
    return out, AttentionState(sums, count)


def attention_step(q: Tensor, k: Tensor, v: Tensor, state: Optional[AttentionState] = None, *,
                   rule: str = "mala", feature: str = "elu1", rope: Rope = None,
                   scale: Optional[float] = None, eps: float = 1e-6, norm: Optional[str] = None,
                   key_mean: bool = True, local: Optional[Tensor] = None,
                   gate: Optional[Tensor] = None) -> tuple[Tensor, AttentionState]:
    """One more token of each sequence, at a cost that does not grow with the text.

    Args:
        q: (B, H, 1, D); k: (B, Hk, 1, D); v: (B, Hk, 1, E). None may require a gradient, except
            under torch.no_grad().
        state: of what came before, changed in place; None at the beginning.
        The others are those of `attention`.

    Returns:
        out (B, H, 1, E), and the tensors of the state that was given, or of a new one.
    """
    check_tensors(q=q, k=k, v=v)
    sums, count = _parts(_empty_state(k, v) if state is None else state)
    try:
        options = {"norm": norm, "scale": scale, "local": local, "gate": gate, **rope_options(rope)}
        out = _step(q, k, v, sums, count, rule=rule, feature=feature, eps=eps,
                    key_mean=key_mean, **without_nothing(options))
    except RuntimeError as error:
        raise_naturally(error)
    return out, AttentionState(sums, count)


def _parts(state: Optional[AttentionState]) -> tuple[Optional[Tensor], Optional[Tensor]]:
    if state is None:
        return None, None
    if not isinstance(state, tuple) or len(state) != 2:
        raise TypeError(
            f"state is a {type(state).__name__}; it must be what attention_chunk or attention_step "
            "returned, or None at the beginning"
        )
    check_tensors(**{"state.sums": state[0], "state.count": state[1]})
    return state[0], state[1]


def _empty_state(k: Tensor, v: Tensor) -> AttentionState:
    if k.dim() != 4 or v.dim() != 4:
        raise ValueError(f"k and v have shapes {tuple(k.shape)} and {tuple(v.shape)}; "
                         "they must be (B, Hk, 1, D) and (B, Hk, 1, E)")
    batch, heads, _, dim = k.shape
    size = dim * v.shape[3] + 2 * dim + v.shape[3]
    return AttentionState(k.new_zeros(batch, heads, size, dtype=torch.float64),
                          k.new_zeros(batch, dtype=torch.int64))
