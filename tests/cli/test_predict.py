"""`mala predict` against plain PyTorch on the same pictures, and whatever may go wrong."""

import json
import resource
import sys

import numpy as np
import safetensors.torch
import torch
from conftest import LABELS, ROOT, SIZE, TINY, mala, picture, together
from PIL import Image

sys.path.insert(0, str(ROOT / "tests/golden"))
import tiny_mavit  # noqa: E402

MIXERS = "mala mala softmax softmax".split()
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and deviation of its colours
ROUNDING = 1e-4  # of probabilities, after some hundred operations in float32


def expected(path, mixers=None, size=SIZE):
    """Probabilities from the script that made the golden answers, and Pillow."""
    with Image.open(path) as image:
        image = image.convert("RGB")
    short = round(size / 0.875)
    scale = short / min(image.size)
    image = image.resize([short if side == min(image.size) else int(side * scale + 1e-9)
                          for side in image.size], Image.Resampling.BICUBIC)
    left, top = (round((side - size) / 2) for side in image.size)
    image = image.crop((left, top, left + size, top + size))
    pixels = torch.tensor(np.asarray(image)).permute(2, 0, 1)[None].double() / 255
    mean, deviation = (torch.tensor(x).view(1, 3, 1, 1) for x in IMAGENET)
    pixels = (pixels - mean) / deviation
    weights = {name: value.double() for name, value in safetensors.torch.load_file(TINY).items()}
    logits = tiny_mavit.Model(weights, mixers or MIXERS, False)(pixels)
    return torch.softmax(logits, 1)[0]


def answers(run):
    return {row["file"]: row["predictions"] for row in map(json.loads, run.out.splitlines())}


def assert_agrees(predictions, probabilities):
    order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])
    assert [p["index"] for p in predictions] == order[:len(predictions)]
    assert [p["label"] for p in predictions] == [LABELS[i] for i in order[:len(predictions)]]
    for p in predictions:
        assert abs(p["probability"] - probabilities[p["index"]].item()) < ROUNDING


def test_a_folder_as_plain_torch_answers_it(folder, weights):
    run = mala("predict", folder, "--weights", weights, "--json", "--top", 7, "--batch", 2,
               "--threads", 2)
    found = answers(run)
    names = ("b.png", "deep/a.jpg", "deep/deeper/c.WEBP")
    assert list(found) == [str(folder / name) for name in names]
    for file, predictions in found.items():
        assert len(predictions) == 7
        assert_agrees(predictions, expected(file))
    assert "mavit (mala,mala,softmax,softmax), 7 classes" in run.err


def test_other_mixers_sizes_and_types(folder, weights):
    file = folder / "b.png"
    mixers = "inline linear mala linear".split()
    run = mala("predict", file, "--weights", weights, "--json", "--mixers", ",".join(mixers),
               "--size", 48, "--quiet", "--threads", 1)
    assert_agrees(answers(run)[str(file)], expected(file, mixers, 48))
    assert run.err == ""
    run = mala("predict", file, "--weights", weights, "--json", "--dtype", "bf16", "--top", 1)
    [best] = answers(run)[str(file)]
    assert abs(best["probability"] - expected(file).max().item()) < 0.1


def test_text_for_people(folder, weights):
    run = mala("predict", folder / "b.png", "--weights", weights, "--top", 2)
    lines = run.out.splitlines()
    best = int(expected(folder / "b.png").argmax())
    assert lines[0] == str(folder / "b.png") and len(lines) == 3
    assert lines[1].endswith(f" %  {LABELS[best]}")


def test_stdin_brings_a_picture_or_names(folder, weights):
    words = ["predict", "-", "--weights", weights, "--json"]
    run = mala(*words, input=(folder / "b.png").read_bytes())
    assert_agrees(answers(run)["-"], expected(folder / "b.png"))
    names = f"{folder}/deep\n\n{folder}/b.png\r\n".encode()
    assert [name[len(str(folder)):] for name in answers(mala(*words, input=names))] == [
        "/deep/a.jpg", "/deep/deeper/c.WEBP", "/b.png"]
    assert "neither a picture nor names" in mala(*words, input=b"", code=1).err


def test_patterns(folder, weights):
    odd = f"{folder}/odd[1].png"
    picture(5).save(odd)
    words = ["--weights", weights, "--json"]
    assert list(answers(mala("predict", f"{folder}/*.png", *words))) == [
        f"{folder}/b.png", odd]
    assert list(answers(mala("predict", odd, *words))) == [odd]
    run = mala("predict", f"{folder}/*.bmp", f"{folder}/b.png", *words, code=1)
    assert f"{folder}/*.bmp: no file fits this" in run.err
    assert list(answers(run)) == [f"{folder}/b.png"]


def test_broken_files_are_named_and_the_others_answered(folder, weights):
    whole = (folder / "deep/a.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(whole[:len(whole) // 2])
    (folder / "empty.png").write_bytes(b"")
    (folder / "page.jpg").write_text("<html>")
    (folder / "none").mkdir()
    run = mala("predict", folder, folder / "missing.png", folder / "none", "--weights", weights,
               "--json", "--batch", 2, code=1)
    for name in ("cut.jpg", "empty.png", "page.jpg", "missing.png"):
        assert f"{folder}/{name}" in run.err
    assert f"{folder}/none: has no pictures" in run.err
    assert len(answers(run)) == 3
    assert mala("predict", folder / "none", "--weights", weights, code=1).out == ""


def test_labels(tmp_path, folder, weights):
    file = folder / "b.png"
    best = int(expected(file).argmax())
    index = {str(i): ["n0", f"kind {i}"] for i in range(7)}
    lists = {"a.json": json.dumps(index), "b.json": json.dumps([f"kind {i}" for i in range(7)]),
             "c.txt": "".join(f"kind {i}\r\n" for i in range(7))}
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
    for name in ("a.json", "c.txt"):
        run = mala("predict", file, "--weights", weights, "--labels", tmp_path / name, "--json")
        assert answers(run)[str(file)][0]["label"] == f"kind {best}"
    (tmp_path / "few.txt").write_text("one\ntwo\n")
    run = mala("predict", file, "--weights", weights, "--labels", tmp_path / "few.txt", code=1)
    assert "few.txt has 2 labels, the model has 7 classes" in run.err


def test_weights_that_do_not_fit(tmp_path, folder, weights):
    file = folder / "b.png"
    run = mala("predict", file, "--weights", weights, "--model", "mavit_n", code=1)
    assert "does not fit the model" in run.err and str(weights) in run.err
    other = tmp_path / "other.safetensors"
    safetensors.torch.save_file({"a.weight": torch.zeros(2)}, other)
    assert "neither a MAViT" in mala("predict", file, "--weights", other, code=1).err
    other.write_bytes(weights.read_bytes()[:1000])
    assert str(other) in mala("predict", file, "--weights", other, code=1).err
    run = mala("predict", file, "--weights", tmp_path / "none.pth", code=1)
    assert "none.pth" in run.err and "No such file" in run.err


def test_weights_that_are_no_numbers(tmp_path, folder, weights):
    arrays = safetensors.torch.load_file(weights)
    arrays["layers.0.blocks.0.norm1.norm.weight"][3] = float("nan")
    broken = tmp_path / "broken.safetensors"
    safetensors.torch.save_file(arrays, broken, {"mala.image_size": "32"})
    run = mala("predict", folder, "--weights", broken, "--json", code=1)
    assert run.out == "" and "the model gives no number for 3 of 3 pictures" in run.err


def test_cards_that_lie(tmp_path, folder):
    lies = {"mala.labels": '["one"]', "mala.image_size": "1e300", "mala.mean": "[1,2]"}
    paths = [tmp_path / f"{key}.safetensors" for key in lies]
    for path, lie in zip(paths, lies.items()):
        safetensors.torch.save_file(safetensors.torch.load_file(TINY), path, dict([lie]))
    words = ["predict", folder / "b.png", "--weights"]
    runs = together(lambda path: mala(*words, path, code=1), paths)
    for path, run, word in zip(paths, runs, ("1 labels and 7 classes", "image_size", "mean")):
        assert str(path) in run.err and word in run.err


def test_models_without_weights_say_so_and_answer_soon(folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = mala("predict", folder / "b.png", "--model", "mavit_n", "--json", "--quiet")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The work, not the wall: other programs may be busy here.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5
    [predictions] = answers(run).values()
    assert len(predictions) == 5 and predictions[0]["label"] is None
    assert "random" in run.err
    assert "did you mean mavit_n" in mala("predict", "x", "--model", "mavit-n", code=2).err


def test_places_and_types_that_are_not_there(folder, weights):
    wrong = [(["--device", "cpu", "--dtype", "float16"], 1, "--dtype bf16"),
             (["--dtype", "int8"], 2, "int8 not in {float32"),
             (["--device", "tpu"], 2, "'tpu' is no device"),
             (["--device", "cuda:77"], 1, "cuda:77")]
    words = ["predict", folder / "b.png", "--weights", weights]
    runs = together(lambda w: mala(*words, *w[0], code=w[1]), wrong)
    for (_, _, hint), run in zip(wrong, runs):
        assert hint in run.err


def test_the_shipped_model_knows_the_shipped_pictures():
    pictures = sorted((ROOT / "examples/pictures").glob("*_?.jpg"))
    assert len(pictures) == 4
    run = mala("predict", *pictures, "--weights", ROOT / "models/mavit_n.safetensors", "--json")
    for file, predictions in answers(run).items():
        assert predictions[0]["label"] in file  # cat_1.jpg is a cat
