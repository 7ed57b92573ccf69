"""`mala train` as its users call it: from a folder of pictures to answers, and what is refused."""

import json
import math

import pytest
import safetensors
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from conftest import COLOURS, RECIPE, ROOT, mala, picture, start_launched, write_pictures


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_learns_evaluates_and_predicts(words, pictures, tmp_path):
    run = tmp_path / "run"
    printed = mala(*words, "epochs=8")
    model = run / "model.safetensors"
    assert printed.out.strip() == str(model)
    assert "top1" in printed.err and "best so far" in printed.err
    lines = metrics(run)
    losses = [line["loss"] for line in lines if line["kind"] == "step"]
    assert len(losses) == 8 * 6
    assert sum(losses[-6:]) < 0.9 * sum(losses[:6])  # the last epoch against the first
    best = max(line[key] for line in lines if line["kind"] == "evaluation"
               for key in ("top1", "ema_top1"))
    assert best > 0.9
    # The exported file is the best one: `mala eval` finds the same accuracy in it.
    result = json.loads(mala("eval", "--data", pictures / "test", "--weights", model, "--json",
                             "--confusion", "none").out)
    assert result["top1"] == pytest.approx(best)
    picture(COLOURS["blue"], 77).save(tmp_path / "sky.png")
    answer = json.loads(mala("predict", tmp_path / "sky.png", "--weights", model, "--json").out)
    assert answer["predictions"][0]["label"] == "blue"


def test_fine_tunes_to_other_classes(words, recipe, tmp_path):
    mala(*words, "epochs=1")
    first = tmp_path / "run" / "model.safetensors"
    colours = {"night": (10, 10, 30), "noon": (240, 240, 200)}
    write_pictures(tmp_path / "own" / "train", colours, 8)
    write_pictures(tmp_path / "own" / "test", colours, 4, first=500)
    recipe.write_text(RECIPE.replace('name = "mavit_n"', ""))
    tuned = tmp_path / "tuned"
    mala("train", recipe, f"init={first}", f"data.train={tmp_path}/own/train",
         f"data.evaluate={tmp_path}/own/test", f"out={tuned}", "freeze=patch_embed,layers.0",
         "epochs=20", "lr=5e-4")  # so many steps, until batch norms know the pictures' statistics
    before = safetensors.safe_open(first, "np")
    after = safetensors.safe_open(tuned / "model.safetensors", "np")
    assert before.get_tensor("head.weight").shape[0] == 3
    assert after.get_tensor("head.weight").shape[0] == 2
    frozen = "layers.0.blocks.0.attn.qkvo.weight"
    assert (before.get_tensor(frozen) == after.get_tensor(frozen)).all()
    free = "layers.3.blocks.0.attn.qkvo.weight"
    assert (before.get_tensor(free) != after.get_tensor(free)).any()
    statistics = "patch_embed.proj.1.running_mean"
    assert (before.get_tensor(statistics) == after.get_tensor(statistics)).all()
    result = json.loads(mala("eval", "--data", tmp_path / "own/test", "--weights",
                             tuned / "model.safetensors", "--json", "--confusion", "none").out)
    assert result["top1"] > 0.8


def test_the_documented_path_from_own_pictures_to_answers(tmp_path):
    """The shipped model, its recipe, and nothing else: train, eval, predict."""
    colours = {"rose": (220, 60, 90), "daisy": (240, 240, 210)}
    write_pictures(tmp_path / "flowers" / "train", colours, 40)
    write_pictures(tmp_path / "flowers" / "test", colours, 10, first=500)
    run = tmp_path / "run"
    mala("train", ROOT / "recipes/fine_tune.toml", f"init={ROOT}/models/mavit_n.safetensors",
         f"data.train={tmp_path}/flowers/train", f"data.evaluate={tmp_path}/flowers/test",
         f"out={run}", "epochs=4", "device=cpu")
    model = run / "model.safetensors"
    result = json.loads(mala("eval", "--data", tmp_path / "flowers/test", "--weights", model,
                             "--json", "--confusion", "none").out)
    assert result["top1"] > 0.9
    picture(colours["rose"], 77).save(tmp_path / "holiday.png")
    answer = json.loads(mala("predict", tmp_path / "holiday.png", "--weights", model, "--json").out)
    assert answer["predictions"][0]["label"] == "rose"


def test_tensorboard_reads_the_curves_of_a_run(words, tmp_path):
    mala(*words, "epochs=2")
    run = tmp_path / "run"
    curves = EventAccumulator(str(run))
    curves.Reload()
    tag = next(name for name in curves.Tags()["scalars"] if name.endswith("loss")
               and "evaluation" not in name and "ema" not in name)
    written = {line["step"]: line["loss"] for line in metrics(run) if line["kind"] == "step"}
    read = {event.step: event.value for event in curves.Scalars(tag)}
    assert read == pytest.approx(written, rel=1e-6) and len(read) == 12


def test_float16_trains_with_a_loss_scale(words, tmp_path):
    losses = []
    for precision in ("float32", "float16"):
        mala(*words[:-1], f"out={tmp_path / precision}", f"precision={precision}", "max_steps=4",
             "data.evaluate=")
        losses.append([line["loss"] for line in metrics(tmp_path / precision)
                       if line["kind"] == "step"])
    assert losses[1] == pytest.approx(losses[0], abs=0.05) and losses[0] != losses[1]
    assert losses[1][-1] < 0.5 * losses[1][0]


def test_the_layout_of_convolutions_changes_no_result(words, tmp_path):
    losses = []
    for layout in ("true", "false"):
        mala(*words[:-1], f"out={tmp_path / layout}", f"channels_last={layout}", "max_steps=3")
        losses.append([line["loss"] for line in metrics(tmp_path / layout)
                       if line["kind"] == "step"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_progress_tells_rate_and_time_left(words):
    said = mala(*words, "epochs=2").err
    assert "/s, " in said and " left" in said and "loss " in said and "epoch 2.00 of 2" in said


def test_torchrun_starts_two_processes(words, tmp_path):
    run = start_launched(2, *words, "max_steps=2", "batch=2")
    assert run.code == 0, run.err
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert run.err.count("step 2 of 2") == 1  # the first process alone speaks


def test_dry_run_says_what_would_be_done(words, tmp_path):
    plan = mala(*words, "--dry-run", "accumulate=2").out
    assert "mavit_n" in plan and "3 classes" in plan
    assert "24 pictures, 8 in a step" in plan
    assert "6, 3 an epoch" in plan
    assert "about" in plan and "GB" in plan
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("word, said", [
    ("epoch=3", "did you mean epochs?"),
    ("epochs=many", "schedule.epochs is a whole number"),
    ("warmup_epochs=2", "the learning rate would never come down"),
    ("mixers=malla", "'malla' is no mixer"),
    ("name=mavit_x", "mavit_t"),
    ("data.train=/nowhere", "/nowhere"),
    ("rand_augment=x9", "rand_augment"),
    ("freeze=stem", "which is no part of the model"),
    ("device=gpu", "use one of auto, cpu, cuda"),
    ("batch=1000", "batch"),
])
def test_refuses_with_a_reason(words, word, said):
    run = mala(*words, word, code=1)
    assert said in run.err
    assert run.err.startswith("mala: ") and len(run.err) < 600


def test_refuses_a_run_that_is_there(words):
    mala(*words, "max_steps=2")
    assert "go on with --resume" in mala(*words, "max_steps=2", code=1).err


def test_broken_pictures_are_named_and_skipped(words, pictures, tmp_path):
    folder = tmp_path / "broken"
    write_pictures(folder, COLOURS, 4)
    (folder / "red" / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno picture")
    run = mala(*words, f"data.train={folder}", "epochs=2")
    assert run.err.count("bad.png") == 1


def test_an_evaluation_set_that_nobody_can_read_is_no_result(words, tmp_path):
    folder = tmp_path / "broken"
    for colour in COLOURS:
        (folder / colour).mkdir(parents=True)
        (folder / colour / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno picture")
    run = mala(*words, f"data.evaluate={folder}", code=1)
    assert "nothing of the evaluation set could be read" in run.err


def test_mixed_pictures_and_every_augmentation(words):
    run = mala(*words, "mixup=0.8", "cutmix=1.0", "rand_augment=m9-mstd0.5-inc1", "erase=0.25",
               "colour_jitter=0.4", "repeats=3", "label_smoothing=0.1", "max_steps=3",
               "checkpoint_activations=true", "precision=bfloat16")
    assert "loss" in run.err


def test_a_loss_that_is_no_number_names_step_and_layer(words):
    run = mala(*words, "lr=1e3", "warmup_epochs=0", "precision=bfloat16", "weight_decay=0",
               "epochs=60", code=1)
    assert "mala: [train] step " in run.err and "try a lower optimizer.lr" in run.err


RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


PUBLISHED = {"schedule.epochs": "300", "schedule.warmup_epochs": "5.0", "optimizer.lr": "5e-04",
             "optimizer.lr_batch": "512", "optimizer.weight_decay": "0.05",
             "schedule.min_lr": "1e-05", "schedule.warmup_lr": "1e-06", "data.repeats": "3",
             "augment.mixup": "0.8", "augment.cutmix": "1.0", "augment.erase": "0.25",
             "augment.rand_augment": '"m9-mstd0.5-inc1"', "augment.colour_jitter": "0.0",
             "loss.label_smoothing": "0.1", "optimizer.clip_norm": "0.0",
             "run.precision": '"float16"'}


@pytest.mark.parametrize("path", [path for path in RECIPES if path.stem.startswith("imagenet")],
                         ids=lambda path: path.stem)
def test_recipes_of_imagenet_hold_the_published_numbers(path):
    lines = mala("train", path, "--settings").out.splitlines()
    settings = {line.split()[0]: line.split()[1] for line in lines}
    assert {key: settings[key] for key in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_in_the_tree_are_whole(path):
    """Every key is known and every value of its kind."""
    settings = mala("train", path, "--settings").out
    assert "schedule.epochs" in settings
    published = path.stem.startswith(("imagenet", "deit"))
    epochs = [line.split()[1] for line in settings.splitlines()
              if line.startswith("schedule.epochs")]
    assert (epochs == ["300"]) == published


def test_a_recipe_keeps_its_numbers(words, tmp_path):
    """What a checkpoint says of its settings is what they were."""
    mala(*words, "lr=0.00123", "max_steps=1")
    path = next((tmp_path / "run" / "checkpoints").iterdir())
    facts = json.loads(safetensors.safe_open(path, "np").metadata()["mala_training"])
    assert "lr = 0.00123" in facts["recipe"] and facts["step"] == 1
    assert math.isclose(facts["examples"], 4)
