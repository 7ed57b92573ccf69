"""What the tests of pictures share: test pictures, and our reading of a file beside Pillow's."""

import os
import subprocess

import numpy as np
import pytest
from PIL import Image, ImageOps


class Reader:
    """Our program on files in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, file, *resize):
        out = self.folder / "out.ppm"
        command = [os.environ["MALA_CONVERT_IMAGE"], file, out, *map(str, resize)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return out, result

    def read(self, file, *resize):
        out, result = self.run(file, *resize)
        assert result.returncode == 0, result.stderr
        with Image.open(out) as image:
            return np.asarray(image).astype(int)

    def refusal(self, file):
        _, result = self.run(file)
        assert result.returncode == 1, f"{file} was read"
        assert str(file) in result.stderr
        return result.stderr

    def save(self, image, name, **options):
        file = self.folder / name
        image.save(file, **options)
        return file


def pillow(file):
    """What we want to agree with."""
    with Image.open(file) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB")).astype(int)


def picture(width=61, height=43, mode="RGB"):
    """Smooth colours with some edges and noise, as a photograph has them."""
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    waves = [np.sin(7 * x + 3 * y), np.cos(9 * y - 2 * x), np.sin(5 * x * y + 1)]
    levels = np.stack(waves, axis=-1) * 100 + 128
    levels += np.random.default_rng(1).normal(size=levels.shape) * 6
    levels[height // 4 : height // 2, width // 3 : width // 2] = (250, 20, 3)
    return Image.fromarray(levels.clip(0, 255).astype(np.uint8)).convert(mode)


@pytest.fixture
def reader(tmp_path):
    return Reader(tmp_path)
