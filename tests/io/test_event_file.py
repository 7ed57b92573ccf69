"""Curves that the program wrote, read with TensorBoard's own reader."""

import os
import subprocess

import pytest

loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator",
                              reason="tensorboard is not installed")


def test_tensorboard_reads_what_was_written(tmp_path):
    program = os.environ["MALA_WRITE_EVENTS"]
    subprocess.run([program, tmp_path / "events.out.tfevents.1.test"], check=True)
    events = loading.EventAccumulator(str(tmp_path))
    events.Reload()
    assert events.Tags()["scalars"] == ["step/loss", "evaluation/top1"]
    losses = events.Scalars("step/loss")
    assert [e.step for e in losses] == [0, 1, 3, 7, 127, 128, 100_000]
    assert [e.value for e in losses] == pytest.approx([1 / (e.step + 1) for e in losses])
    assert events.Scalars("evaluation/top1")[0].wall_time == 1234.5
