"""A part of a picture equals a crop of the whole, though a JPEG's other parts are not worked out."""

import numpy as np
import pytest
from conftest import picture
from PIL import Image
from test_decode import JPEG

REGIONS = [
    (0, 0, 121, 83),
    (0, 0, 1, 1),
    (120, 82, 1, 1),
    (17, 33, 40, 31),
    (1, 1, 119, 81),
    (64, 0, 57, 83),
    (0, 48, 121, 16),
    (15, 15, 2, 2),
    (31, 5, 66, 77),
]
SAVED = {
    **{f"{kind}.jpg": options for kind, options in JPEG.items()},
    "half.jpg": ("RGB", {"subsampling": 1}),
    "turned.jpg": ("RGB", {"exif": Image.Exif()}),
    "a.png": ("RGB", {}),
    "a.webp": ("RGB", {}),
}
SAVED["turned.jpg"][1]["exif"][0x0112] = 6


@pytest.mark.parametrize("name", SAVED)
def test_equals_a_crop(reader, name):
    mode, options = SAVED[name]
    size = (83, 121) if name == "turned.jpg" else (121, 83)
    file = reader.save(picture(*size, mode=mode), name, **options)
    whole = reader.read(file)
    assert whole.shape == (83, 121, 3)
    for left, top, width, height in REGIONS:
        part = reader.read(file, left, top, width, height)
        wanted = whole[top : top + height, left : left + width]
        assert np.array_equal(part, wanted), (left, top, width, height)


@pytest.mark.parametrize("name", ["plain.jpg", "progressive.jpg", "turned.jpg", "a.png"])
def test_damage_outside_is_noticed(reader, name):
    mode, options = SAVED[name]
    file = reader.save(picture(121, 83, mode=mode), name, **options)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 3 // 4])
    _, result = reader.run(file, 0, 0, 8, 8)
    assert result.returncode == 1
    assert "is cut short or damaged" in result.stderr


@pytest.mark.parametrize("region", [(-1, 0, 5, 5), (0, 0, 62, 1), (0, 43, 1, 1), (0, 0, 0, 1)])
@pytest.mark.parametrize("name", ["plain.jpg", "a.png"])
def test_a_part_that_is_not_there(reader, name, region):
    file = reader.save(picture(), name)
    _, result = reader.run(file, *region)
    assert result.returncode == 1
    assert "do not lie within a picture of 61 by 43" in result.stderr
