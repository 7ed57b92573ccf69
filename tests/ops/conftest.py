"""Loads the operator library that the environment variable MALA_OPS_LIBRARY names."""

import functools
import os

import pytest
import torch


def pytest_configure():
    library = os.environ.get("MALA_OPS_LIBRARY", "")
    if not os.path.isfile(library):
        pytest.exit(
            f"MALA_OPS_LIBRARY is '{library}', which is no file; build the target mala_ops and set "
            "it to the path of libmala_ops.so, or run ctest, which does",
            returncode=2,
        )
    torch.ops.load_library(library)


@functools.cache
def why_no_gpu():
    """What keeps the operators from a GPU here; empty where nothing does."""
    if not torch.cuda.is_available():
        return "torch finds no GPU"
    try:
        torch.ops.mala.attention(*[torch.zeros(1, 1, 1, 8, device="cuda")] * 3)
    except RuntimeError as error:
        if "built without CUDA" not in str(error):
            raise
        return str(error)
    return ""


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Where a test's tensors lie: what it makes goes there, unless it says otherwise."""
    if request.param == "cuda" and why_no_gpu():
        pytest.skip(why_no_gpu())
    torch.set_default_device(request.param)
    yield request.param
    torch.set_default_device(None)


@pytest.fixture
def gpu():
    """For tests of what only a GPU has."""
    if why_no_gpu():
        pytest.skip(why_no_gpu())
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)


@pytest.fixture(autouse=True)
def steady():
    """The same numbers each time, on one thread: the calls are tiny, and on a busy machine more
    threads only wait for each other. Tests of threads ask for more."""
    threads = torch.get_num_threads()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
