"""`mala augment`: sheets that people look at."""

import numpy as np
import pytest
from conftest import mala, picture
from PIL import Image

GAP = 4  # white pixels between cells


@pytest.fixture
def flowers(tmp_path):
    for number in range(6):
        target = tmp_path / "flowers" / ("rose" if number < 3 else "tulip")
        target.mkdir(parents=True, exist_ok=True)
        picture(number, 32, 32).save(target / f"{number}.png")
    return tmp_path / "flowers"


def cells(file, size):
    with Image.open(file) as image:
        levels = np.asarray(image)
    step = size + GAP
    rows, columns = levels.shape[0] // step, levels.shape[1] // step
    assert levels.shape == (rows * step + GAP, columns * step + GAP, 3)
    starts = lambda count: [GAP + i * step for i in range(count)]
    return [[levels[y : y + size, x : x + size] for x in starts(columns)] for y in starts(rows)]


def test_each_picture_as_it_is_and_as_training_sees_it(flowers, tmp_path):
    out = tmp_path / "sheet.png"
    words = ["augment", flowers, "--out", out, "--rows", 3, "--columns", 4, "--size", 32]
    run = mala(*words, "rand_augment=m9-mstd0.5-inc1", "erase=0.25", "mixup=0.8")
    shown = cells(out, 32)
    assert len(shown) == 3 and len(shown[0]) == 4
    for row, number in zip(shown, (0, 2, 4)):
        assert np.array_equal(row[0], np.asarray(picture(number, 32, 32)))
        assert all(not np.array_equal(row[0], cell) for cell in row[1:])
    assert run.out.splitlines()[2].endswith("4.png")


def test_settings_and_the_seed_decide(flowers, tmp_path):
    sheets = []
    for words in (["flip=1"], ["flip=1"], ["flip=1", "--seed", 1], ["flip=0"]):
        out = tmp_path / "sheet.png"
        mala("augment", flowers, "--out", out, "--size", 32, "crop=padded", *words)
        sheets.append(out.read_bytes())
    assert sheets[0] == sheets[1]
    assert len(set(sheets)) == 3


def test_each_augmentation_alone(flowers, tmp_path):
    out = tmp_path / "each.png"
    run = mala("augment", flowers, "--out", out, "--each", "--columns", 3, "--size", 32)
    lines = run.out.splitlines()
    assert len(lines) == len(cells(out, 32)) == 23
    assert lines[3] == "row 4: flip"
    for plain, flipped in zip(cells(out, 32)[0], cells(out, 32)[3]):
        assert np.array_equal(plain[:, ::-1], flipped)


def test_what_is_wrong_is_said(flowers, tmp_path):
    out = tmp_path / "sheet.png"
    assert "rand_augment" in mala("augment", "--settings").out
    assert "needs a set" in mala("augment", flowers, code=2).err
    assert "key=value" in mala("augment", flowers, "--out", out, "flip", code=2).err
    for word, answer in {
        "fip=1": "did you mean flip",
        "flip=2": "flip is 2, needs 0 to 1",
        "rand_augment=m9-x3": "there is no 'x'",
    }.items():
        assert answer in mala("augment", flowers, "--out", out, word, code=1).err
    assert "no folders" in mala("augment", flowers / "rose", "--out", out, code=1).err
    assert "cannot be written" in mala("augment", flowers, "--out", "/none/a.png", code=1).err
    assert not out.exists()
