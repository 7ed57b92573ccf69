"""One block of MAViT: position, attention, feed-forward, each added to what came in."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mala.nn.attention2d import MalaAttention2d
from mala.nn.pixels import Pointwise, depthwise, drop_path, to_image, to_pixels


class ChannelNorm(nn.Module):
    """A layer norm over the channels of (B, C, H, W), one name deeper, as checkpoints have it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, image: Tensor) -> Tensor:
        return to_image(self.norm(to_pixels(image)))


class ConvFfn(nn.Module):
    """Feed-forward with a depthwise 3x3 between its projections: (B, C, H, W) -> (B, C, H, W)."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = Pointwise(dim, hidden)
        self.fc2 = Pointwise(hidden, dim)
        self.dwconv = depthwise(hidden, 3)

    def forward(self, image: Tensor) -> Tensor:
        hidden = F.gelu(self.fc1(image))
        return self.fc2(hidden + self.dwconv(hidden))


class Block(nn.Module):
    """(B, C, H, W) -> (B, C, H, W).

    Args:
        dim, heads, hidden: widths of the block, its attention and its feed-forward part.
        mixer: one of mala.nn.MIXERS.
        layer_scale: what the scales of both branches begin with.
        drop_path: the probability to leave a branch out in training.
    """

    def __init__(self, dim: int, heads: int, hidden: int, mixer: str = "mala", *,
                 layer_scale: float = 1.0, drop_path: float = 0.0) -> None:
        super().__init__()
        if not 0 <= drop_path < 1:
            raise ValueError(f"drop_path {drop_path}; needs 0 or more and less than 1")
        self.drop_path = drop_path
        self.norm1 = ChannelNorm(dim)
        self.attn = MalaAttention2d(dim, heads, mixer)
        self.norm2 = ChannelNorm(dim)
        self.ffn = ConvFfn(dim, hidden)
        self.pos = depthwise(dim, 3)
        self.gamma_1 = nn.Parameter(torch.full((1, dim, 1, 1), layer_scale))
        self.gamma_2 = nn.Parameter(torch.full((1, dim, 1, 1), layer_scale))

    def forward(self, image: Tensor) -> Tensor:
        x = image + self.pos(image)
        x = self._add(x, self.gamma_1, self.attn(self.norm1(x)))
        return self._add(x, self.gamma_2, self.ffn(self.norm2(x)))

    def _add(self, x: Tensor, gamma: Tensor, branch: Tensor) -> Tensor:
        return x + drop_path(gamma * branch, self.drop_path, self.training)
