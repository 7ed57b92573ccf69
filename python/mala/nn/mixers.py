"""How tokens look at each other: the rules that models choose from, for each stage."""

from typing import Optional

from torch import Tensor
from torch.nn import functional as F

import mala
from mala.nn.rope import grid_table, rotate

# What each word asks of mala.attention; None is softmax, by torch.
_OPTIONS: dict[str, Optional[dict]] = {
    "mala": {},
    "softmax": None,
    "linear": {"rule": "linear"},
    "inline": {"rule": "inline"},
    "mala_balanced": {"norm": "balanced"},
    "mala_relu": {"feature": "relu"},
    "mala_exp": {"feature": "exp"},
}
MIXERS = tuple(_OPTIONS)


def check_mixer(mixer: str) -> str:
    if mixer not in _OPTIONS:
        raise ValueError(f"'{mixer}' is no mixer; there are {', '.join(MIXERS)}")
    return mixer


def check_heads(dim: int, heads: int) -> None:
    for name, value in (("dim", dim), ("heads", heads)):
        if not isinstance(value, int):
            raise TypeError(f"{name} is a {type(value).__name__}; it must be an int")
    if heads < 1 or dim < 1 or dim % (8 * heads):
        raise ValueError(f"dim {dim} with {heads} heads; each head needs a multiple of 8 channels, "
                         "so make dim a multiple of 8 * heads")


def mix(mixer: str, q: Tensor, k: Tensor, v: Tensor, *, grid: Optional[tuple[int, int]] = None,
        local: Optional[Tensor] = None, gate: Optional[Tensor] = None) -> Tensor:
    """(attention + local) * gate, all (B, H, N, D). On a grid of (rows, columns) tokens are rotated
    by their place."""
    options = _OPTIONS[check_mixer(mixer)]
    if options is not None:
        return mala.attention(q, k, v, rope=grid, local=local, gate=gate, **options)
    if grid is not None:
        table = grid_table(*grid, q.shape[-1], q)
        q, k = rotate(q, table), rotate(k, table)
    out = F.scaled_dot_product_attention(q, k, v)
    out = out if local is None else out + local
    return out if gate is None else out * gate
