"""The wheel: built, installed into a fresh environment, imported from elsewhere; and into .venv."""

import os
import subprocess
import sys
import sysconfig
import venv

import pytest
from conftest import ROOT

USE = """
import mala, torch
assert "site-packages" in mala.__file__, mala.__file__
q = torch.rand(1, 2, 6, 8, requires_grad=True)
mala.attention(q, q, q, rope=(2, 3)).sum().backward()
assert q.grad.isfinite().all()
assert mala.create_model("mavit_n")(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
print(mala.__file__)
"""


def run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=400, **options)
    return result.returncode, result.stdout + result.stderr


def without_source_tree():
    hidden = ("MALA_OPS_LIBRARY", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in hidden}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of a new environment with the wheel, which borrows torch from this one."""
    pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    # The library is the one that this build has made; that it compiles needs no second proof.
    library = os.environ["MALA_OPS_LIBRARY"]
    status, said = run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps",
                       "-w", str(folder),
                       "--config-settings", f"cmake.define.MALA_PYTHON_LIBRARY={library}",
                       "--config-settings", f"build-dir={folder}/build", str(ROOT))
    assert status == 0, said
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    wheel, = folder.glob("mala-*.whl")
    status, said = run(sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps",
                       "--no-index", str(wheel))
    assert status == 0, said
    packages, = (folder / "venv" / "lib").glob("python3*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python, packages, folder


def test_installed_package_works(installed):
    python, packages, folder = installed
    status, said = run(str(python), "-c", USE, env=without_source_tree(), cwd=folder)
    assert status == 0 and str(packages) in said, said


def test_other_torch_is_refused_at_import(installed):
    python, packages, folder = installed
    note = packages / "mala" / "built_for_torch.txt"
    kept = note.read_text()
    note.write_text("2.9.1+cpu\n")
    try:
        status, said = run(str(python), "-c", "import mala", env=without_source_tree(), cwd=folder)
    finally:
        note.write_text(kept)
    assert status == 1 and "ImportError: this mala was built for torch 2.9.1+cpu, but torch" in said
    assert "pip install" in said


def test_goes_into_the_environment_of_the_tree(installed):
    """So that .venv's Python knows mala wherever it is called."""
    if os.path.realpath(sys.prefix) != os.path.realpath(ROOT / ".venv"):
        pytest.skip(f"these tests run on {sys.prefix}, which is not the tree's own .venv")
    wheel, = installed[2].glob("mala-*.whl")
    status, said = run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index",
                       "--force-reinstall", str(wheel))
    assert status == 0, said
    status, said = run(sys.executable, "-c", USE, env=without_source_tree(), cwd=installed[2])
    assert status == 0 and sysconfig.get_path("purelib") in said, said
