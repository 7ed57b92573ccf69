"""What the tests of the package share: steady numbers, and processes that meet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure():
    sys.path.insert(0, str(ROOT / "python"))
    if not os.path.isfile(os.environ.get("MALA_OPS_LIBRARY", "")):
        pytest.exit("MALA_OPS_LIBRARY is not set to a file; build the target mala_ops and set it "
                    "to the path of libmala_ops.so, or run ctest, which does", returncode=2)


@pytest.fixture(autouse=True)
def steady():
    """The same numbers each time, on one thread: the calls are tiny."""
    threads = torch.get_num_threads()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def golden():
    """tests/golden's weights and answers, which an independent program wrote."""
    from safetensors.torch import load_file

    folder = ROOT / "tests" / "golden"
    return {name: load_file(folder / f"tiny_mavit_{name}.safetensors")
            for name in ("weights", "answers")}


@pytest.fixture
def two_processes(tmp_path):
    """Runs a script twice, as ranks 0 and 1 of gloo: sys.argv has a folder and the rank."""

    def run(script):
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = str(ROOT / "python")
        path = tmp_path / "script.py"
        path.write_text(MEET + script)
        command = [sys.executable, str(path), str(tmp_path)]
        ranks = [subprocess.Popen([*command, str(rank)], env=environment) for rank in range(2)]
        try:
            assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
        finally:  # one alone would wait for the other
            for rank in ranks:
                rank.kill()
        return [torch.load(tmp_path / str(rank)) for rank in range(2)]

    return run


MEET = """
import sys, torch, mala
import torch.distributed as dist
folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
torch.manual_seed(3)
"""
