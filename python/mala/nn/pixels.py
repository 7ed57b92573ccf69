"""Images (B, C, H, W) whose channels lie innermost in memory, and what works on them so."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def to_pixels(image: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, H, W, C): a view."""
    return image.permute(0, 2, 3, 1)


def to_image(pixels: Tensor) -> Tensor:
    """(B, H, W, C) -> (B, C, H, W): a view."""
    return pixels.permute(0, 3, 1, 2)


def check_image(image: Tensor, channels: int) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"the image is a {type(image).__name__}; it must be a torch.Tensor")
    if image.dim() != 4 or image.shape[1] != channels:
        raise ValueError(f"images of shape {tuple(image.shape)}; "
                         f"needs (batch, {channels}, height, width)")


class Pointwise(nn.Conv2d):
    """A 1x1 convolution, (B, into, H, W) -> (B, out, H, W), as the matrix product that it is."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__(into, out, 1)

    def forward(self, image: Tensor) -> Tensor:
        return to_image(F.linear(to_pixels(image), self.weight.flatten(1), self.bias))


def depthwise(dim: int, size: int) -> nn.Conv2d:
    return nn.Conv2d(dim, dim, size, padding=size // 2, groups=dim)


def drop_path(branch: Tensor, probability: float, training: bool) -> Tensor:
    """Leaves a branch out for some images of a batch, and scales it up for the others."""
    if not training or probability == 0:
        return branch
    kept = 1 - probability
    shape = (branch.shape[0],) + (1,) * (branch.dim() - 1)
    wide = torch.promote_types(branch.dtype, torch.float32)  # a narrow type would round 1 / kept
    factors = branch.new_empty(shape, dtype=wide).bernoulli_(kept).div_(kept)
    return (branch * factors).to(branch.dtype)
