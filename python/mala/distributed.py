"""Attention over tokens that are spread over processes."""

from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from torch import Tensor

from mala._arguments import (
    Offsets,
    Rope,
    check_grid,
    check_tensors,
    offset_options,
    raise_naturally,
    rope_options,
    without_nothing,
)

# Counts travel among the state's floats, in two parts: float32 holds sums over 4096 processes, and
# of 2 ** 36 tokens, exactly.
_LOW = 1 << 12


class _SumStates(torch.autograd.Function):
    """The sum over all processes of flat numbers; the gradient is summed in the same way."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = numbers.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


def sharded_attention(q: Tensor, k: Tensor, v: Tensor, *, group: Any = None,
                      offset: Union[None, int, tuple[int, int]] = None, rule: str = "mala",
                      feature: str = "elu1",
                      rope: Rope = None, scale: Optional[float] = None, eps: float = 1e-6,
                      norm: Optional[str] = None, key_mean: bool = True,
                      key_lengths: Optional[Tensor] = None, cu_seqlens: Offsets = None,
                      local: Optional[Tensor] = None, gate: Optional[Tensor] = None) -> Tensor:
    """What `attention` gives for all tokens, where each process has some: its part of the result.

    Processes exchange one all-reduce of D * E + 2 * D + E numbers for each head forward, and one
    backward, however many tokens there are. Every process of the group must make the call, and
    where one needs gradients all must.

    Args:
        q: (B, H, N, D); k: (B, Hk, M, D); v: (B, Hk, M, E): this process's tokens.
        group: of torch.distributed; None is the default group.
        offset: the place of this process's first token among all, for RoPE; a pair where q and k
            differ. None is for shards of one size, in the order of ranks.
        rope: as in `attention`, without packed sequences; (rows, columns) are those of the whole
            image, and tables hold all tokens.
        key_lengths: (B): how many of this process's keys count, at least one.
        The others are those of `attention`; the causal form is `attention_chunk`.

    Returns:
        (B, H, N, E).
    """
    check_tensors(q=q, k=k, v=v)
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("torch.distributed has no processes; call init_process_group first, or "
                           "use mala.attention where all tokens are in one process")
    if k.dim() != 4 or v.dim() != 4 or q.dim() != 4:
        raise ValueError(f"q, k and v have {q.dim()}, {k.dim()} and {v.dim()} dimensions; "
                         "all need (batch, heads, tokens, head size)")
    if rope is not None and cu_seqlens is not None:
        raise ValueError("rope of packed sequences needs the place of each within its whole, which "
                         "one offset cannot say; turn q and k before, or give each a batch entry")
    offsets = offset_options(cu_seqlens)
    turn = rope_options(rope)
    first_q, first_k = _first_places(q, k, offset, dist.get_rank(group))
    keys = without_nothing({"key_lengths": key_lengths, **_one_side(turn, first_k),
                            "cu_seqlens_k": offsets.get("cu_seqlens_k")})
    state, error = _sum_keys(k, v, feature, keys)
    mine = _key_counts(k, key_lengths, offsets.get("cu_seqlens_k"))
    places = _places(q, k, group)
    failures = torch.tensor([error is not None], dtype=torch.int64, device="cpu")
    total, counts = _exchange(state, torch.cat([mine, places, failures]), group)
    if error is not None:
        raise_naturally(error)
    if counts[-1]:
        raise RuntimeError(f"{int(counts[-1])} other processes could not sum their keys; see what "
                           "they say")
    _check_places(rope, offset, *counts[len(mine):-1].chunk(2))
    try:
        rest = without_nothing({"local": local, "gate": gate, "norm": norm, "scale": scale,
                                **_one_side(turn, first_q),
                                "cu_seqlens_q": offsets.get("cu_seqlens_q")})
        return torch.ops.mala.attention_queries(q, total, counts[:len(mine)], rule=rule, eps=eps,
                                                feature=feature, key_mean=key_mean, **rest)
    except RuntimeError as wrong:
        raise_naturally(wrong)


def _first_places(q: Tensor, k: Tensor, offset: Any, rank: int) -> tuple[int, int]:
    if offset is None:
        return rank * q.shape[2], rank * k.shape[2]
    return offset if isinstance(offset, tuple) else (offset, offset)


def _sum_keys(k: Tensor, v: Tensor, feature: str, options: dict[str, Any]
              ) -> tuple[Tensor, Optional[RuntimeError]]:
    """The state of this process's keys. One that fails still takes part in the exchange, so that
    the others do not wait for it."""
    try:
        return torch.ops.mala.attention_keys(k, v, feature=feature, **options), None
    except RuntimeError as error:
        sequences = len(options["cu_seqlens_k"]) - 1 if "cu_seqlens_k" in options else k.shape[0]
        dim, value_dim = k.shape[3], v.shape[3]
        wide = torch.promote_types(k.dtype, torch.float32)
        return k.new_zeros(sequences, k.shape[1], dim * value_dim + 2 * dim + value_dim,
                           dtype=wide), error


def _places(q: Tensor, k: Tensor, group: Any) -> Tensor:
    """How many queries each process has, then how many keys, as far as this one knows."""
    places = torch.zeros(2, dist.get_world_size(group), dtype=torch.int64, device="cpu")
    places[:, dist.get_rank(group)] = torch.tensor([q.shape[2], k.shape[2]], device="cpu")
    return places.flatten()


def _one_side(turn: dict[str, Any], first: int) -> dict[str, Any]:
    """A half of the operator has one offset and one width, and a table from its token on."""
    if not turn:
        return turn
    if "rope_table" in turn:
        return {**turn, "rope_table": [table[first:] for table in turn["rope_table"]]}
    turn = {**turn, "rope_offset": first}
    if "grid_width" in turn:
        turn["grid_width"] = turn["grid_width"][0]
    return turn


def _key_counts(k: Tensor, key_lengths: Optional[Tensor], offsets: Optional[Tensor]) -> Tensor:
    if key_lengths is not None:
        return key_lengths.to(torch.int64)
    if offsets is not None:
        return offsets.diff().to(torch.int64)
    return torch.full([k.shape[0]], k.shape[2], dtype=torch.int64, device="cpu")


def _exchange(state: Tensor, counts: Tensor, group: Any) -> tuple[Tensor, Tensor]:
    """The sums over processes of both, in one all-reduce."""
    parts = torch.cat([counts // _LOW, counts % _LOW]).to(state.device, state.dtype)
    total = _SumStates.apply(torch.cat([state.flatten(), parts]), group)
    high, low = total[state.numel():].detach().cpu().to(torch.int64).chunk(2)
    return total[:state.numel()].view_as(state), high * _LOW + low


def _check_places(rope: Rope, offset: Any, queries: Tensor, keys: Tensor) -> None:
    """All processes know all sizes by now, so all of them raise or none does."""
    if rope is None:
        return
    for tokens in (queries, keys):
        if offset is None and (tokens != tokens[0]).any():
            raise ValueError(f"rope needs every token's place, and processes have {tokens.tolist()}"
                             " tokens; pass offset, the place of this process's first token")
    check_grid(rope, q=int(queries.sum()), k=int(keys.sum()))
