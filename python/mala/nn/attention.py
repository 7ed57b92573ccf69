"""Attention over sequences, for texts and for any tokens in a line."""

from collections.abc import Callable
from typing import Optional

import torch
from torch import Tensor, nn

import mala
from mala._arguments import Offsets, Rope, rope_options
from mala._operators import AttentionState
from mala.nn.mixers import check_heads


class MalaAttention(nn.Module):
    """Multi-head attention over (B, N, C), bidirectional or causal, in place of softmax.

    Args:
        dim: channels C, a multiple of 8 * heads.
        heads: of queries.
        kv_heads: of keys and values, a divisor of heads; None is as many.
        causal: whether a token sees those up to its own alone.
        rope: None, "1d", (rows, columns) or (cos, sin), as in mala.attention.
        rule, feature, norm: as in mala.attention; new models do best with norm="balanced".
        gate: whether the result is multiplied by a projection of the input.
        bias: of the projections.
    """

    def __init__(self, dim: int, heads: int, *, kv_heads: Optional[int] = None,
                 causal: bool = False, rope: Rope = None, rule: str = "mala", feature: str = "elu1",
                 norm: Optional[str] = None, gate: bool = False, bias: bool = True) -> None:
        super().__init__()
        check_heads(dim, heads)
        kv_heads = heads if kv_heads is None else kv_heads
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"{kv_heads} kv_heads for {heads} heads; kv_heads must divide heads")
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self._keep_rope(rope)
        self.options = {"rule": rule, "feature": feature, "norm": norm}
        nothing = torch.empty(1, 1, 1, 8, device="meta")
        mala.attention(nothing, nothing, nothing, **self.options)  # wrong words are refused here
        kv_dim = dim // heads * kv_heads
        self.sizes = [dim, kv_dim, kv_dim] + [dim] * gate
        self.qkv = nn.Linear(dim, sum(self.sizes), bias=bias)
        self.proj = nn.Linear(dim, dim, bias=bias)

    def _keep_rope(self, rope: Rope) -> None:
        """Tables go where the layer goes, but are no weights of it."""
        options = rope_options(rope)
        self.rope_words = rope if "rope_table" not in options else None
        for name, table in zip(("rope_cos", "rope_sin"), options.get("rope_table", (None, None))):
            self.register_buffer(name, table, persistent=False)

    def _apply(self, move: Callable, recurse: bool = True) -> "MalaAttention":
        """Tables change their device alone: a narrow type would round them, and none is taken."""
        tables = self.rope_cos, self.rope_sin
        super()._apply(move, recurse)
        if tables[0] is not None and not tables[0].is_meta:
            self.rope_cos, self.rope_sin = (x.to(self.rope_cos.device) for x in tables)
        return self

    @property
    def rope(self) -> Rope:
        """As it was given."""
        return self.rope_words if self.rope_cos is None else (self.rope_cos, self.rope_sin)

    def forward(self, x: Tensor, *, key_lengths: Optional[Tensor] = None,
                cu_seqlens: Offsets = None) -> Tensor:
        """x (B, N, C) -> (B, N, C); key_lengths (B) and cu_seqlens (S + 1) as in mala.attention."""
        q, k, v, gate = self._split(x)
        out = mala.attention(q, k, v, gate=gate, causal=self.causal, rope=self.rope,
                             key_lengths=key_lengths, cu_seqlens=cu_seqlens, **self.options)
        return self._join(out)

    def chunk(self, x: Tensor, state: Optional[AttentionState] = None
              ) -> tuple[Tensor, AttentionState]:
        """The next tokens of a text, (B, N, C), and the state that the tokens after them need."""
        self._check_causal("chunk")
        q, k, v, gate = self._split(x)
        out, state = mala.attention_chunk(q, k, v, state, gate=gate, rope=self.rope, **self.options)
        return self._join(out), state

    def step(self, x: Tensor, state: Optional[AttentionState] = None
             ) -> tuple[Tensor, AttentionState]:
        """One more token, (B, 1, C), without gradients; the state is changed in place."""
        self._check_causal("step")
        q, k, v, gate = self._split(x)
        out, state = mala.attention_step(q, k, v, state, gate=gate, rope=self.rope, **self.options)
        return self._join(out), state

    def _check_causal(self, name: str) -> None:
        if not self.causal:
            raise ValueError(f"{name} is for causal attention; make the layer with causal=True")

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
        parts = self.qkv(x).split(self.sizes, -1)
        q, k, v, *gate = (
            part.unflatten(-1, (heads, -1)).transpose(1, 2)
            for part, heads in zip(parts, (self.heads, self.kv_heads, self.kv_heads, self.heads))
        )
        return q, k, v, gate[0] if gate else None

    def _join(self, out: Tensor) -> Tensor:
        return self.proj(out.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        words = [f"{name}={value}" for name, value in self.options.items() if value is not None]
        rope = "tables" if self.rope_cos is not None else self.rope_words
        return ", ".join([f"heads={self.heads}, kv_heads={self.kv_heads}, causal={self.causal}",
                          f"rope={rope}", *words])
