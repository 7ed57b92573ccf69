"""Attention of MAViT: a packed projection, a rule over tokens on a grid, a local term, a gate."""

from torch import Tensor, nn

from mala.nn.mixers import check_heads, check_mixer, mix
from mala.nn.pixels import convolve_pixelwise, depthwise, to_image, to_pixels


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
        self.qkvo = nn.Conv2d(dim, (4 if gate else 3) * dim, 1)
        self.lepe = depthwise(dim, 5) if local else None
        self.proj = nn.Conv2d(dim, dim, 1)

    def forward(self, image: Tensor) -> Tensor:
        return to_image(self.mix_pixels(to_pixels(image)))

    def mix_pixels(self, pixels: Tensor) -> Tensor:
        """(B, H, W, C) -> (B, H, W, C)"""
        _, rows, columns, dim = pixels.shape
        parts = convolve_pixelwise(self.qkvo, pixels).split(dim, -1)
        local = None
        if self.lepe is not None:
            local = self._heads(to_pixels(self.lepe(to_image(parts[2]))))
        q, k, v = (self._heads(part) for part in parts[:3])
        gate = self._heads(parts[3]) if self.has_gate else None
        out = mix(self.mixer, q, k, v, grid=(rows, columns), local=local, gate=gate)
        out = out.transpose(1, 2).flatten(2).unflatten(1, (rows, columns))
        return convolve_pixelwise(self.proj, out)

    def _heads(self, pixels: Tensor) -> Tensor:
        """(B, H, W, C) -> (B, heads, H * W, C / heads)"""
        return pixels.flatten(1, 2).unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, mixer={self.mixer}"
