"""From pictures to the pixels of the first stage, and from stage to stage."""

from torch import Tensor, nn

from mala.nn.pixels import check_image, to_image, to_pixels


def _conv3x3(into: int, out: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(into, out, 3, stride, padding=1)


class PatchEmbed(nn.Module):
    """Four 3x3 convolutions with batch norms: (B, in_chans, H, W) -> (B, dim, H/s, W/s).

    Args:
        dim: channels of the result.
        stride: 4, or 2 for small pictures.
        in_chans: channels of pictures.
    """

    def __init__(self, dim: int, stride: int = 4, in_chans: int = 3) -> None:
        super().__init__()
        if stride not in (2, 4):
            raise ValueError(f"stride {stride}; needs 4, or 2 for small pictures")
        self.in_chans = in_chans
        layers: list[nn.Module] = []
        half = dim // 2
        for into, out, step in ((in_chans, half, 2), (half, half, 1), (half, half, 1),
                                (half, dim, stride // 2)):
            layers += [_conv3x3(into, out, step), nn.BatchNorm2d(out), nn.GELU()]
        self.proj = nn.Sequential(*layers[:-1])

    def forward(self, images: Tensor) -> Tensor:
        check_image(images, self.in_chans)
        # The only change of layout in a model, to channels last, in words that torch.func knows.
        return self.proj(to_image(to_pixels(images).contiguous()))


class Downsample(nn.Module):
    """Halves height and width, rounded up: (B, C, H, W) -> (B, out, H/2, W/2)."""

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.reduction = _conv3x3(dim, out, 2)
        self.norm = nn.BatchNorm2d(out)

    def forward(self, image: Tensor) -> Tensor:
        return self.norm(self.reduction(image))
