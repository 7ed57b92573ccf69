"""The operations of the augmentations beside Pillow's."""

import os
import subprocess

import numpy as np
import pytest
from conftest import picture
from PIL import Image, ImageEnhance, ImageOps

FILL = (10, 200, 90)  # what augment_image fills in
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}

# Ours sums in float and Pillow in double, and both round down.
ONE_LEVEL = 1
# How many levels may differ at all: sums that end on a whole number or near it. A move by tenths of
# a pixel has many of them.
FEW = 0.05


def noise():
    levels = np.random.default_rng(3).integers(0, 256, size=(40, 57, 3), dtype=np.uint8)
    return Image.fromarray(levels)


def narrow():
    """Few levels, so that stretching and equalizing have something to do."""
    return Image.fromarray((np.asarray(picture()) // 3 + 60).astype(np.uint8))


PICTURES = {
    "picture": picture,
    "noise": noise,
    "narrow": narrow,
    "plain": lambda: Image.new("RGB", (31, 17), (7, 99, 255)),
    "small": lambda: picture(2, 2),
}


def ours(tmp_path, image, operation, *arguments):
    before, after = tmp_path / "before.png", tmp_path / "after.png"
    image.save(before)
    command = [os.environ["MALA_AUGMENT_IMAGE"], before, after, operation, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    with Image.open(after) as image_after:
        return np.asarray(image_after).astype(int)


def solarize_add(image, amount):
    return image.point([min(255, i + amount) if i < 128 else i for i in range(256)] * 3)


LEVELS = {
    ("invert",): ImageOps.invert,
    ("autocontrast",): ImageOps.autocontrast,
    ("equalize",): ImageOps.equalize,
    ("mirror",): ImageOps.mirror,
    **{("solarize", t): lambda x, t=t: ImageOps.solarize(x, t) for t in (0, 26, 128, 256)},
    **{("solarize_add", a): lambda x, a=a: solarize_add(x, a) for a in (0, 55, 110)},
    **{("posterize", b): lambda x, b=b: ImageOps.posterize(x, b) for b in (1, 2, 4, 8)},
}
ENHANCE = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "colour": ImageEnhance.Color,
    "sharpness": ImageEnhance.Sharpness,
}


@pytest.mark.parametrize("name", PICTURES)
def test_levels_equal_pillows(tmp_path, name):
    image = PICTURES[name]()
    for (operation, *arguments), pillows in LEVELS.items():
        wanted = np.asarray(pillows(image)).astype(int)
        assert (ours(tmp_path, image, operation, *arguments) == wanted).all(), operation


def test_no_bits_at_all_is_black(tmp_path):
    """timm asks for that at the highest magnitude; ImageOps would refuse a picture without bits."""
    assert (ours(tmp_path, picture(), "posterize", 0) == 0).all()


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("operation", ENHANCE)
def test_enhancements_equal_pillows(tmp_path, name, operation):
    image = PICTURES[name]()
    for factor in (0.0, 0.1, 0.37, 1.0, 1.55, 1.9):
        wanted = np.asarray(ENHANCE[operation](image).enhance(factor)).astype(int)
        assert (ours(tmp_path, image, operation, factor) == wanted).all(), factor


def assert_alike(levels, wanted):
    difference = abs(levels - wanted)
    assert difference.max() <= ONE_LEVEL
    assert (difference > 0).sum() <= max(1, FEW * difference.size)


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("filter_name", FILTERS)
def test_rotation(tmp_path, name, filter_name):
    image = PICTURES[name]()
    for degrees in (0, 27, -11.3, 30, 90, 180):
        turned = image.rotate(degrees, resample=FILTERS[filter_name], fillcolor=FILL)
        wanted = np.asarray(turned).astype(int)
        assert_alike(ours(tmp_path, image, "rotate", degrees, filter_name), wanted)


AFFINE = [
    (1, 0.27, 0, 0, 1, 0),
    (1, -0.3, 0, 0, 1, 0),
    (1, 0, 0, 0.27, 1, 0),
    (1, 0, 0, -0.13, 1, 0),
    (1, 0, 7.3, 0, 1, 0),
    (1, 0, -12, 0, 1, 0),
    (1, 0, 0, 0, 1, 9.81),
    (1, 0, 0, 0, 1, -30.5),
    (0.8, 0.1, 3, -0.2, 1.4, -1),
    (1, 0, 1e9, 0, 1, 0),
]


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("filter_name", FILTERS)
def test_shears_and_moves(tmp_path, name, filter_name):
    image = PICTURES[name]()
    for matrix in AFFINE:
        moved = image.transform(
            image.size,
            Image.Transform.AFFINE,
            matrix,
            resample=FILTERS[filter_name],
            fillcolor=FILL,
        )
        wanted = np.asarray(moved).astype(int)
        assert_alike(ours(tmp_path, image, "affine", *matrix, filter_name), wanted)
