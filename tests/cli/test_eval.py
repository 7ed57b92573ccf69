"""`mala eval` against counts of what `mala predict` answers."""

import json

import pytest
from conftest import LABELS, mala, picture
from PIL import Image


@pytest.fixture
def labelled(tmp_path, weights):
    """Pictures in folders that the model's own answers choose, but for some; and the truth."""
    pool = tmp_path / "pool"
    pool.mkdir()
    for seed in range(24):
        picture(seed, 50, 40).save(pool / f"{seed:02}.png")
    run = mala("predict", pool, "--weights", weights, "--json", "--top", 7)
    root, truth = tmp_path / "set", []
    for number, row in enumerate(map(json.loads, run.out.splitlines())):
        order = [p["index"] for p in row["predictions"]]
        label = order[(0, 0, 1, 5)[number % 4]]  # right, right, in the first five, not even there
        truth.append((label, order[0]))
        target = root / LABELS[label] / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        (pool / f"{number:02}.png").rename(target)
    return root, truth


def test_figures(tmp_path, labelled, weights):
    root, truth = labelled
    out = tmp_path / "confusion.png"
    run = mala("eval", "--data", root, "--weights", weights, "--json", "--confusion", out,
               "--batch", 5)
    figures = json.loads(run.out)
    assert figures["pictures"] == 24 and figures["skipped"] == 0
    assert figures["top1"] == 0.5 and figures["top5"] == 0.75
    assert figures["images_per_second"] > 0
    wanted = [[0] * 7 for _ in LABELS]
    for label, answer in truth:
        wanted[label][answer] += 1
    assert figures["confusion"] == wanted
    for row in figures["classes"]:
        counts = wanted[row["index"]]
        assert row["label"] == LABELS[row["index"]] and row["pictures"] == sum(counts)
        if row["pictures"]:
            assert row["top1"] == pytest.approx(counts[row["index"]] / sum(counts))
    assert_shows(out, wanted)


def assert_shows(path, counts):
    """Squares of no pictures are white, right answers greener than red, wrong ones redder."""
    with Image.open(path) as image:
        square = image.width // 7
        assert image.size == (7 * square, 7 * square)
        for label, row in enumerate(counts):
            for answer, count in enumerate(row):
                middle = answer * square + square // 2, label * square + square // 2
                red, green, _ = image.getpixel(middle)
                if count == 0:
                    assert (red, green) == (255, 255)
                else:
                    assert (green > red) == (label == answer)


def test_table_and_broken_files(tmp_path, labelled, weights):
    root, truth = labelled
    label = LABELS[truth[0][0]]
    (root / label / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    run = mala("eval", "--data", root, "--weights", weights, code=1, cwd=tmp_path)
    assert "top-1 50.00 %, top-5 75.00 %, of 24 pictures; " in run.out
    assert any(line.startswith(label) for line in run.out.splitlines())
    assert "broken.jpg" in run.err
    assert (tmp_path / "confusion.png").exists()


def test_folders_that_do_not_agree(tmp_path, labelled, weights):
    root, _ = labelled
    (root / "unicorn").mkdir()
    picture(1).save(root / "unicorn/a.png")
    run = mala("eval", "--data", root, "--weights", weights, "--confusion", "none", code=1)
    assert "'unicorn' is none of the model's labels" in run.err
    run = mala("eval", "--data", tmp_path / "nowhere", "--weights", weights, code=1)
    assert "nowhere" in run.err
    (tmp_path / "empty").mkdir()
    run = mala("eval", "--data", tmp_path / "empty", "--weights", weights, code=1)
    assert str(tmp_path / "empty") in run.err
