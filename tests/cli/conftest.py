"""What the tests of the program share: running it, a tiny model, and pictures."""

import concurrent.futures
import os
import pathlib
import subprocess

import numpy as np
import pytest
import safetensors.torch
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/golden/tiny_mavit_weights.safetensors"
LABELS = ["ape", "bee", "cat", "dog", "eel", "fox", "gnu"]
SIZE = 32  # pixels that the tiny model sees here


class Run:
    """One run of the program that has ended."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def must_be(self, code):
        assert self.code == code, f"ended with {self.code}:\n{self.out}\n{self.err}"
        return self


def mala(*words, code=0, **extra):
    """Runs `mala words...`, which must end with `code`."""
    program = os.environ["MALA_PROGRAM"]
    # Tiny models, two runs at a time; the same answers where there is a GPU.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    if "input" not in extra:
        extra["stdin"] = subprocess.DEVNULL
    done = subprocess.run([program, *map(str, words)], capture_output=True, check=False,
                          env=environment, timeout=120, **extra)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return Run(done).must_be(code)


def together(run, *lists):
    """map(run, *lists), two at a time: most of a run is the loading of torch."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, *lists))


def picture(seed, width=61, height=43):
    """Smooth colours, other ones for every seed."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width][..., None] / max(width, height)
    waves = np.sin(x * random.uniform(2, 12, 3) + y * random.uniform(2, 12, 3))
    return Image.fromarray((waves * 100 + 128).astype(np.uint8))


@pytest.fixture
def weights(tmp_path):
    """The golden model with a card: its labels and the size of its pictures."""
    path = tmp_path / "tiny.safetensors"
    card = {"mala.image_size": str(SIZE), "mala.labels": str(LABELS).replace("'", '"')}
    safetensors.torch.save_file(safetensors.torch.load_file(TINY), path, card)
    return path


@pytest.fixture
def folder(tmp_path):
    """Three pictures, of which two lie deeper, a text file and a hidden picture."""
    root = tmp_path / "pictures"
    (root / "deep/deeper").mkdir(parents=True)
    picture(1).save(root / "b.png")
    picture(2).save(root / "deep/a.jpg", quality=95)
    picture(3).save(root / "deep/deeper/c.WEBP", lossless=True)
    picture(4).save(root / ".hidden.png")
    (root / "notes.txt").write_text("no picture")
    return root
