"""The frame of the program: help, versions, mistyped words, the list of models, the bench."""

import json
import os
import subprocess

from conftest import mala, together

COMMANDS = ["predict", "eval", "models", "convert", "bench"]
MODELS = {"mavit_t": 16449128, "mavit_s": 27142568, "mavit_b": 49792648, "mavit_l": 97766088}


WRONG = [
    (["predcit", "a.png"], "'predcit' is no command; did you mean predict?"),
    (["predict", "a.png", "--wieghts", "w"],
     "'--wieghts' is no option of mala predict; did you mean --weights?"),
    (["predict", "a.png", "--topp=3"], "did you mean --top?"),
    (["eval", "--dta", "x", "--weights", "y"], "'--dta' is no option of mala eval; did you mean --data?"),
    (["explain", "a.png", "b.png"], "'b.png' is one word too many for mala explain"),
    (["bench", "--mixers", "malla"], "malla"),
    (["bench", "--mixers", "mala,softmax"], "names 2 mixers; give one for all stages"),
    (["xyzzy"], "'xyzzy' is no command\nTry: mala --help"),
    (["predict"], "IMAGE is required\nTry: mala predict --help"),
    (["predict", "a.png", "--top", "0"], "--top"),
    (["predict", "a.png", "--batch", "many"], "--batch"),
    (["convert", "a.pth", "b", "--dtype", "int8"], "--dtype"),
    (["eval", "--weights", "w"], "--data is required"),
    (["bench", "--model", "mavit_z"], "no model 'mavit_z'; did you mean mavit_"),
    ([], "Usage: mala"),
]


def test_help_and_version():
    text = mala("--help").out
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert mala("--version").out.startswith("mala 0.")


def test_every_command_has_help_with_examples():
    texts = together(lambda command: mala(command, "--help").out, COMMANDS)
    for command, text in zip(COMMANDS, texts):
        assert f"Examples:\n  mala {command}" in text
        assert text.count(f"  mala {command}") >= 2


def test_wrong_use_ends_with_2():
    runs = together(lambda wrong: mala(*wrong[0], code=2), WRONG)
    for (_, hint), run in zip(WRONG, runs):
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
        done = subprocess.run([os.environ["MALA_PROGRAM"], "models"], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "stdout" in done.stderr


def test_bench():
    words = ["bench", "--model", "mavit_n", "--batch", "1,2", "--seconds", "0.01", "--json"]
    rows = [json.loads(line) for line in mala(*words).out.splitlines()]
    assert [(row["name"], row["shape"], row["impl"]) for row in rows] == [
        ("mavit_n", "1,3,32,32", "mala"), ("mavit_n", "2,3,32,32", "mala"),
        ("attention", "1,1,3136,64", "mala"), ("attention", "1,1,3136,64", "sdpa")]
    assert all(row["ms"] > 0 for row in rows)
    assert abs(rows[1]["images_per_second"] - 2000 / rows[1]["ms"]) < 1e-6 * 2000 / rows[1]["ms"]
