"""Runs that are killed, stopped or lose a process go on, to the same weights."""

import random
import signal
import socket
import time

import numpy as np
import pytest
import safetensors.numpy

from conftest import Run, mala, start


def weights(run):
    """The newest checkpoint: all tensors, those of the optimiser too."""
    newest = sorted((run / "checkpoints").glob("step_*.safetensors"))[-1]
    return safetensors.numpy.load_file(newest)


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert tensor.tobytes() == b[name].tobytes(), name


def test_killed_at_any_moment_it_goes_on_to_the_bit(words, tmp_path):
    steps = ["epochs=12", "save_every=3"]
    began = time.monotonic()
    mala(*words, *steps)
    whole = time.monotonic() - began
    expected = weights(tmp_path / "run")
    parts = tmp_path / "parts"
    chance = random.Random()
    kills = 0
    for _ in range(60):
        process = start(*words, *steps, f"out={parts}", "--resume")
        # Now while it loads, now in a step, now while it writes; ten of them do not finish the run.
        time.sleep(chance.uniform(0, 0.3 * whole))
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        if kills >= 10:
            break
    assert kills >= 10
    mala(*words, *steps, f"out={parts}", "--resume")
    assert_same(weights(parts), expected)
    # Nothing half written is left, and no step is told twice.
    assert not list(parts.rglob("*.part-*"))
    lines = (parts / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends(words, tmp_path, number):
    process = start(*words, "epochs=1000")
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 3:
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(number)
    run = Run(process)
    assert run.code == 128 + number
    assert "saved at step" in run.err
    step = int(run.err.split("saved at step ")[1].split(";")[0])
    assert (tmp_path / "run" / "checkpoints" / f"step_{step:010d}.safetensors").exists()


def test_what_a_killed_writer_left_is_removed(words, tmp_path):
    mala(*words, "epochs=1")
    run = tmp_path / "run"
    for name in ("metrics.jsonl", "model.safetensors", "checkpoints/step_0000000001.safetensors"):
        (run / f"{name}.part-1-0").write_text("half")
    mala(*words, "epochs=2", "--resume")
    assert not list(run.rglob("*.part-*"))


def test_resume_says_what_does_not_fit(words):
    mala(*words, "max_steps=2")
    assert "examples a step" in mala(*words, "batch=2", "--resume", code=1).err
    assert "does not fit this run" in mala(*words, "name=mavit_t", "--resume", code=1).err


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_two(*words):
    port = str(free_port())
    return [start(*words, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=port, LOCAL_RANK=str(rank)) for rank in range(2)]


# AdamW divides gradients by their own size: those of biases before batch norms are rounding alone,
# and a small eps would make steps of them.
PLAIN = ["drop_path=0", "epochs=3", "clip_norm=1", "eps=1e-3"]


def test_two_processes_are_one_with_twice_the_batch(words, tmp_path):
    mala(*words, *PLAIN, "batch=8")
    for process in start_two(*words, *PLAIN, f"out={tmp_path / 'two'}"):
        run = Run(process)
        assert run.code == 0, run.err
    one, two = weights(tmp_path / "run"), weights(tmp_path / "two")
    assert one.keys() == two.keys()
    # The same sums in another order: rounding of float32 that nine steps have carried on.
    for name, tensor in one.items():
        if name.startswith("model.") and tensor.dtype == np.float32:
            assert np.abs(tensor - two[name]).max() < 1e-4 * (1 + np.abs(tensor).max()), name


def test_a_process_that_is_killed_ends_the_others_and_all_go_on(words, tmp_path):
    first, second = start_two(*words, "epochs=1000", "save_every=2")
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 5:
        time.sleep(0.05)
        assert first.poll() is None and second.poll() is None
    second.kill()
    began = time.monotonic()
    run = Run(first, timeout=30)
    assert time.monotonic() - began < 20
    assert run.code == 1
    assert "lost the others" in run.err and "--resume" in run.err
    second.communicate()
    for process in start_two(*words, "epochs=1000", "max_steps=12", "--resume"):
        run = Run(process)
        assert run.code == 0, run.err
