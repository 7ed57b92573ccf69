"""bench/ops_overhead.py: its table, and what it says without a GPU."""

import csv
import pathlib
import subprocess
import sys

import pytest
import torch

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "ops_overhead.py"


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                          timeout=300)


def test_table_has_every_contender_in_every_pass(tmp_path):
    table = tmp_path / "table.csv"
    counts = ["--calls", "2", "--rounds", "1"]
    result = run("--device", "cpu", "--commit", "abc1234", "--csv", table, *counts)
    assert result.returncode == 0, result.stderr
    lines = table.read_text().splitlines()
    assert "commit: abc1234" in lines[0] and lines == result.stdout.splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    names = ("python", "python_rope", "python_block", "mala", "mala_rope", "sdpa", "add")
    kinds = ("inference", "forward", "forward_backward")
    wanted = {(n, k) for n in names for k in kinds} | {("c++", "inference"), ("c++_block", "inference")}
    assert {(row["name"], row["pass"]) for row in rows} == wanted
    assert all(float(row["microseconds"]) > 0 for row in rows)


def test_missing_gpu_is_said():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = run("--device", "cuda")
    assert result.returncode == 1 and "torch finds no GPU; pass --device cpu" in result.stderr
