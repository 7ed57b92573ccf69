"""Resizing beside Pillow's, to the bit."""

import numpy as np
import pytest
from conftest import picture
from PIL import Image

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
SIZES = [
    ((500, 375), (341, 256)),
    ((375, 500), (256, 341)),
    ((61, 43), (224, 224)),
    ((61, 43), (61, 20)),
    ((61, 43), (13, 43)),
    ((640, 3), (17, 90)),
    ((1, 1), (5, 9)),
    ((400, 300), (1, 1)),
    ((33, 77), (33, 77)),
    ((1200, 90), (1100, 89)),
]


@pytest.mark.parametrize("filter_name", FILTERS)
@pytest.mark.parametrize("before, after", SIZES)
def test_equals_pillow(reader, filter_name, before, after):
    image = picture(*before)
    file = reader.save(image, "a.png")
    wanted = np.asarray(image.resize(after, FILTERS[filter_name])).astype(int)
    assert (reader.read(file, *after, filter_name) == wanted).all()


def test_equals_pillow_on_noise(reader):
    """Sharp edges overshoot: sums beyond black and white are cut off alike."""
    levels = np.random.default_rng(3).integers(0, 2, size=(97, 101, 3), dtype=np.uint8) * 255
    image = Image.fromarray(levels)
    file = reader.save(image, "a.png")
    for size in ((64, 64), (150, 130)):
        wanted = np.asarray(image.resize(size, Image.Resampling.BICUBIC)).astype(int)
        assert (reader.read(file, *size, "bicubic") == wanted).all()
