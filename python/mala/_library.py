"""Finds libmala_ops.so and loads it, or says why that cannot be."""

import os
from pathlib import Path

import torch

# The environment variable that names another build of the library, for those who work on it.
OVERRIDE = "MALA_OPS_LIBRARY"
_BESIDE_PACKAGE = Path(__file__).with_name("libmala_ops.so")
_REBUILD = "install it again: pip install --no-build-isolation --force-reinstall ."


def load() -> None:
    """Registers torch.ops.mala.*. Raises ImportError where no library is there that fits."""
    if hasattr(torch.ops.mala, "attention"):
        return  # somebody loaded it by hand
    path = find()
    if not os.environ.get(OVERRIDE):
        check_torch(built_for(), torch.__version__)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} does not load with torch {torch.__version__} ({error}); {_REBUILD}"
        ) from error


def find() -> Path:
    """The library that MALA_OPS_LIBRARY names, or the one that was installed."""
    named = os.environ.get(OVERRIDE)
    path = Path(named) if named else _BESIDE_PACKAGE
    if path.is_file():
        return path
    if named:
        raise ImportError(f"{OVERRIDE} is '{named}', which is no file; set it to libmala_ops.so")
    raise ImportError(
        f"{path} is missing, so this package was not built; run pip install --no-build-isolation . "
        f"in the source tree, or set {OVERRIDE} to a libmala_ops.so"
    )


def built_for() -> str:
    """The version of torch that the installed library was compiled for."""
    return Path(__file__).with_name("built_for_torch.txt").read_text(encoding="utf-8").strip()


def check_torch(built: str, installed: str) -> None:
    """Torch's C++ interface changes with every release, and a wrong pair would crash."""
    release = lambda version: version.split("+")[0]
    if release(built) != release(installed):
        raise ImportError(
            f"this mala was built for torch {built}, but torch {installed} is installed; "
            f"{_REBUILD}, or take the other torch: pip install torch=={release(built)}"
        )
