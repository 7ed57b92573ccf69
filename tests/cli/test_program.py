"""The frame of the program: help, versions, mistyped words, the list of models, the bench."""

import json
import subprocess

import pytest
from conftest import mala

MODELS = {"mavit_t": 16449128, "mavit_s": 27142568, "mavit_b": 49792648, "mavit_l": 97766088}


def test_help_and_version():
    text = mala("--help").out
    for command in ("predict", "eval", "models", "convert", "bench"):
        assert f"\n  {command} " in text
    assert mala("--version").out.startswith("mala 0.")


@pytest.mark.parametrize("command", ["predict", "eval", "models", "convert", "bench"])
def test_every_command_has_help_with_examples(command):
    text = mala(command, "--help").out
    assert f"Examples:\n  mala {command}" in text
    assert text.count(f"  mala {command}") >= 2


@pytest.mark.parametrize("words, hint", [
    (["predcit", "a.png"], "'predcit' is no command; did you mean predict?"),
    (["predict", "a.png", "--wieghts", "w"], "'--wieghts' is no option of mala predict;"
                                             " did you mean --weights?"),
    (["predict", "a.png", "--topp=3"], "did you mean --top?"),
    (["xyzzy"], "'xyzzy' is no command\nTry: mala --help"),
    (["predict"], "IMAGE is required\nTry: mala predict --help"),
    (["predict", "a.png", "--top", "0"], "--top"),
    (["predict", "a.png", "--batch", "many"], "--batch"),
    (["convert", "a.pth", "b", "--dtype", "int8"], "--dtype"),
    (["eval", "--weights", "w"], "--data is required"),
    (["bench", "--model", "mavit_z"], "no model 'mavit_z'; did you mean mavit_"),
    ([], "Usage: mala"),
])
def test_wrong_use_ends_with_2(words, hint):
    run = mala(*words, code=2)
    assert hint in run.err and run.out == ""


def test_models():
    rows = {row["name"]: row for row in map(json.loads, mala("models", "--json").out.splitlines())}
    assert {name: rows[name]["parameters"] for name in MODELS} == MODELS
    assert rows["mavit_t"]["mixers"] == "mala,mala,softmax,softmax"
    assert abs(rows["mavit_t"]["macs_224"] / 1e9 - 2.64) < 0.005
    assert rows["deit_t"]["parameters"] == 5717416
    assert rows["mavit_n"]["image_size"] == 32
    table = mala("models").out
    assert "97,766,088" in table and "17.26 G" in table


def test_a_full_disk_is_an_error():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([mala_program(), "models"], stdout=full, stderr=subprocess.PIPE,
                              text=True, check=False)
    assert done.returncode == 1 and "stdout" in done.stderr


def mala_program():
    import os
    return os.environ["MALA_PROGRAM"]


def test_bench():
    words = ["bench", "--model", "mavit_n", "--batch", "1,2", "--seconds", "0.01", "--json"]
    rows = [json.loads(line) for line in mala(*words).out.splitlines()]
    assert [(row["name"], row["shape"], row["impl"]) for row in rows] == [
        ("mavit_n", "1,3,32,32", "mala"), ("mavit_n", "2,3,32,32", "mala"),
        ("attention", "1,1,3136,64", "mala"), ("attention", "1,1,3136,64", "sdpa")]
    assert all(row["ms"] > 0 for row in rows)
    assert abs(rows[1]["images_per_second"] - 2000 / rows[1]["ms"]) < 1e-6 * 2000 / rows[1]["ms"]
