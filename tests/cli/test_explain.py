"""`mala explain` from the command line: the page, its pictures and its refusals."""

import os
import re
import subprocess

import numpy as np
import pytest
from PIL import Image

MALA = os.environ["MALA_PROGRAM"]


def run(*arguments):
    command = [MALA, "explain", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """Wider than high, so that the model does not see its sides."""
    file = tmp_path_factory.mktemp("explain") / "two <squares> & noise.png"
    levels = np.random.default_rng(1).integers(0, 60, (90, 160, 3), dtype=np.uint8)
    levels[20:40, 50:70] = (250, 200, 40)
    levels[50:70, 90:110] = (250, 200, 40)
    Image.fromarray(levels).save(file)
    return file


def test_page_and_pictures(picture, tmp_path):
    out = tmp_path / "deep" / "folder"
    result = run(picture, "--model", "mavit_n", "--at", "60,30", "--out", out)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{out}/index.html\n"
    assert "random weights" in result.stderr
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Random weights" in page and "two &lt;squares&gt; &amp; noise.png" in page
    assert not re.search(r"https?://|<link|<script src", page)
    names = {file.name for file in out.iterdir()}
    rules = ("softmax", "linear", "inline", "mala")
    assert names == {"index.html", "picture.png"} | {
        f"stage{stage}_{rule}.png" for stage in (1, 2, 3, 4) for rule in rules}
    sizes = {Image.open(file).size for file in out.glob("*.png")}
    assert len(sizes) == 1


def test_the_same_twice(picture, tmp_path):
    for name in ("a", "b"):
        assert run(picture, "--model", "mavit_n", "--out", tmp_path / name).returncode == 0
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("dtype", ["bf16", "float64"])
def test_other_types_and_threads(picture, tmp_path, dtype):
    words = ["--model", "mavit_n", "--device", "cpu", "--threads", "1", "--dtype"]
    for name, kind in (("a", "float32"), ("b", dtype)):
        result = run(picture, *words, kind, "--out", tmp_path / name)
        assert result.returncode == 0, result.stderr
    first, second = (np.asarray(Image.open(tmp_path / name / "stage1_mala.png"), dtype=float)
                     for name in ("a", "b"))
    assert abs(first - second).mean() < 3  # of 255: the same map


def test_refusals(picture, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(picture.read_bytes()[:500])
    small = ["--model", "mavit_n", "--out", tmp_path / "out"]
    for status, words, arguments in (
        (2, "two numbers with a comma", [picture, "--at", "12", *small]),
        (2, "two numbers with a comma", [picture, "--at", "1,2,3", *small]),
        (2, "--weights", [picture, "--weigths", "x", *small]),
        (2, "IMAGE", small),
        (1, "it sees x from", [picture, "--at", "2,30", *small]),
        (1, "it sees x from", [picture, "--at", "nan,30", *small]),
        (1, "broken.png", [broken, *small]),
        (1, "none.jpg", [tmp_path / "none.jpg", *small]),
        (1, "none.pth", [picture, "--weights", tmp_path / "none.pth", *small]),
        (1, "no stages to look at", [picture, "--model", "deit_t", "--out", tmp_path / "out"]),
        (1, "cannot make the folder", [picture, "--model", "mavit_n", "--out", picture / "in"]),
    ):
        result = run(*arguments)
        assert result.returncode == status, (arguments, result.stderr)
        assert words in result.stderr, (arguments, result.stderr)
    assert not (tmp_path / "out").exists()
