"""Images (B, C, H, W) whose channels lie innermost in memory, and what works on them so."""

from torch import Tensor, nn
from torch.nn import functional as F


def to_pixels(image: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, H, W, C): a view."""
    return image.permute(0, 2, 3, 1)


def to_image(pixels: Tensor) -> Tensor:
    """(B, H, W, C) -> (B, C, H, W): a view."""
    return pixels.permute(0, 3, 1, 2)


def convolve_pixelwise(conv: nn.Conv2d, pixels: Tensor) -> Tensor:
    """A 1x1 convolution of (B, H, W, C), as the matrix product that it is."""
    return F.linear(pixels, conv.weight.flatten(1), conv.bias)


def depthwise(dim: int, size: int) -> nn.Conv2d:
    return nn.Conv2d(dim, dim, size, padding=size // 2, groups=dim)


def drop_path(branch: Tensor, probability: float, training: bool) -> Tensor:
    """Leaves a branch out for some images of a batch, and scales it up for the others."""
    if not training or probability == 0:
        return branch
    kept = 1 - probability
    shape = (branch.shape[0],) + (1,) * (branch.dim() - 1)
    return branch * branch.new_empty(shape).bernoulli_(kept).div_(kept)
