"""What the tests of training share: running the program, and a few small pictures."""

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = """
task = "classify"
[model]
name = "mavit_n"
drop_path = 0.1
[data]
batch = 4
crop = 1.0
workers = 1
[augment]
crop = "padded"
padding = 2
[optimizer]
lr = 2e-3
[schedule]
epochs = 2
warmup_epochs = 0.5
ema_decay = 0.9
[run]
threads = 1
report_every = 1
device = "cpu"
"""


def environment(**more):
    """Without what a launcher of several processes may have left."""
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def start(*words, **more):
    return subprocess.Popen([os.environ["MALA_PROGRAM"], *map(str, words)], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(**more))


def kill_all_of(process):
    """With those that it started, where it leads a group: they hold the ends of its pipes."""
    if os.getpgid(process.pid) == process.pid:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


class Run:
    def __init__(self, process, timeout=100):
        try:
            self.out, self.err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_all_of(process)
            said = "".join(process.communicate())
            pytest.fail(f"did not end within {timeout} s; it said:\n{said}")
        self.code = process.returncode


def mala(*words, code=0, **more):
    """Runs `mala words...`, which must end with `code`."""
    run = Run(start(*words, **more))
    assert run.code == code, f"ended with {run.code}:\n{run.out}\n{run.err}"
    return run


def start_launched(processes, *words):
    """The same under torchrun, which would name this machine by a name that it may not know."""
    launcher = pathlib.Path(sys.executable).parent / "torchrun"
    command = [launcher, "--standalone", "--local-addr=127.0.0.1", "--no-python",
               f"--nproc-per-node={processes}", os.environ["MALA_PROGRAM"], *words]
    return Run(subprocess.Popen([str(word) for word in command], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=environment(),
                                start_new_session=True))


def picture(colour, seed, size=32):
    noise = np.random.default_rng(seed).normal(0, 40, (size, size, 3))
    return Image.fromarray(np.clip(noise + colour, 0, 255).astype(np.uint8))


def write_pictures(folder, colours, count, first=0):
    for name, colour in colours.items():
        (folder / name).mkdir(parents=True)
        for i in range(count):
            picture(colour, first + i).save(folder / name / f"{i}.png")


COLOURS = {"red": (200, 60, 60), "green": (60, 200, 60), "blue": (60, 60, 200)}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """train/ and test/ with a folder for each of three colours."""
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder / "train", COLOURS, 8)
    write_pictures(folder / "test", COLOURS, 4, first=1000)
    return folder


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def words(recipe, pictures, tmp_path):
    """`mala train` with small pictures, into a folder of the test's own."""
    return ["train", recipe, f"data.train={pictures / 'train'}",
            f"data.evaluate={pictures / 'test'}", f"out={tmp_path / 'run'}"]
