"""Loads the operator library that the environment variable MALA_OPS_LIBRARY names."""

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


@pytest.fixture(autouse=True)
def steady():
    """The same numbers each time, on one thread: the calls are tiny, and on a busy machine more
    threads only wait for each other. Tests of threads ask for more."""
    threads = torch.get_num_threads()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
