"""Attention of MAViT: a packed projection, a rule over tokens on a grid, a local term, a gate."""

from torch import Tensor, nn

from mala.nn.mixers import check_heads, check_mixer, mix
from mala.nn.pixels import Pointwise, check_image, depthwise, to_image, to_pixels


class MalaAttention2d(nn.Module):
    """The published block's attention, for images: (B, C, H, W) -> (B, C, H, W).

    Weights have the released names: qkvo (1x1, C -> 4C: queries, keys, values and the gate), lepe
    (depthwise 5x5 of the values, the local term) and proj (1x1). Images whose memory is
    channels-last go through without a copy.

    Args:
        dim: channels C, a multiple of 8 * heads.
        heads: of attention.
        mixer: one of mala.nn.MIXERS; all have the same weights.
        local, gate: whether there are a local term and a gate; released weights have both.
    """

    def __init__(self, dim: int, heads: int, mixer: str = "mala", *, local: bool = True,
                 gate: bool = True) -> None:
        super().__init__()
        check_heads(dim, heads)
        self.heads, self.mixer, self.has_gate = heads, check_mixer(mixer), gate
        self.qkvo = Pointwise(dim, (4 if gate else 3) * dim)
        self.lepe = depthwise(dim, 5) if local else None
        self.proj = Pointwise(dim, dim)

    def forward(self, image: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)"""
        check_image(image, self.proj.in_channels)
        _, dim, rows, columns = image.shape
        parts = self.qkvo(image).split(dim, 1)
        local = None if self.lepe is None else self._heads(self.lepe(parts[2]))
        q, k, v = (self._heads(part) for part in parts[:3])
        gate = self._heads(parts[3]) if self.has_gate else None
        out = mix(self.mixer, q, k, v, grid=(rows, columns), local=local, gate=gate)
        return self.proj(to_image(out.transpose(1, 2).flatten(2).unflatten(1, (rows, columns))))

    def _heads(self, image: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, heads, H * W, C / heads)"""
        return to_pixels(image).flatten(1, 2).unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, mixer={self.mixer}"
