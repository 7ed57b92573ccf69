"""tools/setup on pretended machines: its programs are stand-ins that do as each test says."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What a bare system has anyway.
REAL = "awk bash cat chmod cp dirname env flock grep head mkdir rm sed sha256sum sh tail touch"

# A python3 that makes a .venv of stand-ins and writes down what it was asked for.
PYTHON = """#!/bin/sh
echo "python $*" >>"$CALLS"
case "$*" in
  *version_info*) exit ${OLD_PYTHON:-0} ;;
  *sysconfig*) echo "${HEADERS:-$STAND_INS}" ;;
  --version) echo "Python 3.11.2" ;;
  "-m venv "*)
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip install"*)
    [ -z "$PIP_SAYS" ] || { echo "$PIP_SAYS"; exit 1; }
    cp "$STAND_INS/uv" "${0%/*}/uv" ;;
  "-m pip config"*) exit 1 ;;
esac
"""

UV = """#!/bin/sh
echo "uv $*" >>"$CALLS"
[ -z "$UV_SAYS" ] || { echo "$UV_SAYS"; exit 1; }
"""

APT = """#!/bin/sh
echo "apt-get $*" >>"$CALLS"
case "$*" in
  *install*) [ -z "$APT_SAYS" ] || { echo "$APT_SAYS"; exit 100; } ;;
esac
"""

DPKG = """#!/bin/sh
for name; do :; done
case " $MISSING " in *" $name "*) exit 1 ;; esac
echo installed
"""

DF = """#!/bin/sh
echo "Filesystem 1024-blocks Used Available Capacity Mounted"
echo "disk 900000000 1 ${FREE_KB:-500000000} 1% /"
"""


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.root = self.home / "a tree"
        self.bin = self.home / "bin"
        self.calls = self.home / "calls"
        self.bin.mkdir()
        (self.root / "tools").mkdir(parents=True)
        for name in ("setup", "requirements.txt", "constraints.txt"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools" / name)
        for name in REAL.split():
            program = shutil.which(name)
            if program:
                (self.bin / name).symlink_to(program)
        for name, text in {
            "python3": PYTHON,
            "uv": UV,
            "apt-get": APT,
            "dpkg-query": DPKG,
            "df": DF,
            "id": "#!/bin/sh\necho ${USER_ID:-0}\n",
            "Python.h": "",
        }.items():
            self.stand_in(name, text)

    def stand_in(self, name, text):
        file = self.bin / name
        file.unlink(missing_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run_setup(self, **settings):
        """Runs it from another folder; `calls` then has what it asked of the stand-ins."""
        self.calls.write_text("")
        environment = {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "CALLS": str(self.calls),
            "STAND_INS": str(self.bin),
        }
        return subprocess.run(
            [str(self.root / "tools" / "setup")],
            cwd="/",
            env=environment | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def assert_fails(self, result, *words):
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        last = result.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith("[setup] error: "), result.stderr)
        for word in words:
            self.assertIn(word, last)

    def assert_succeeds(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_installs_once_and_is_silent_then(self):
        first = self.run_setup()
        self.assert_succeeds(first)
        calls = self.calls.read_text()
        self.assertIn("python -m venv", calls)
        self.assertIn("uv pip install", calls)
        self.assertNotIn("apt-get", calls)
        second = self.run_setup()
        self.assert_succeeds(second)
        self.assertEqual(second.stdout + second.stderr, "")
        self.assertNotIn("install", self.calls.read_text())

    def test_installs_only_the_packages_that_are_missing(self):
        result = self.run_setup(MISSING="libhwy-dev ccache")
        self.assert_succeeds(result)
        calls = [line for line in self.calls.read_text().splitlines() if line.startswith("apt")]
        self.assertEqual(len(calls), 2, calls)
        self.assertTrue(calls[0].endswith(" update"), calls)
        self.assertTrue(
            calls[1].endswith("install -y --no-install-recommends ccache libhwy-dev"), calls
        )

    def test_installs_headers_for_a_python_without(self):
        self.assert_succeeds(self.run_setup(HEADERS="/nowhere", MISSING="python3-dev"))
        self.assertIn("--no-install-recommends python3-dev", self.calls.read_text())
        # Those of Debian's Python are no use to another one: nothing more can be done.
        self.assert_succeeds(self.run_setup(HEADERS="/nowhere"))
        self.assertNotIn("apt-get", self.calls.read_text())

    def test_new_pins_install_again(self):
        self.assert_succeeds(self.run_setup())
        with open(self.root / "tools" / "constraints.txt", "a", encoding="utf-8") as pins:
            pins.write("# changed\n")
        self.assert_succeeds(self.run_setup())
        self.assertIn("uv pip install", self.calls.read_text())
        self.assertNotIn("-m venv", self.calls.read_text())

    def test_mends_what_an_interrupted_run_left(self):
        self.assert_fails(self.run_setup(UV_SAYS="killed"), "installing the Python packages")
        (self.root / ".venv" / "half").touch()
        self.assert_succeeds(self.run_setup())
        self.assertIn("-m venv", self.calls.read_text())
        self.assertFalse((self.root / ".venv" / "half").exists())

    def test_mends_a_venv_whose_python_is_gone(self):
        self.assert_succeeds(self.run_setup())
        (self.root / ".venv" / "bin" / "python").unlink()
        self.assert_succeeds(self.run_setup())
        self.assertIn("-m venv", self.calls.read_text())

    def test_mends_a_venv_that_was_moved(self):
        self.assert_succeeds(self.run_setup())
        self.root = self.root.rename(self.home / "elsewhere")
        self.assert_succeeds(self.run_setup())
        self.assertIn("-m venv", self.calls.read_text())

    def test_says_that_the_network_is_missing(self):
        failures = [
            ("APT_SAYS", "Err:1 Temporary failure resolving 'somewhere'", "installing ccache"),
            ("PIP_SAYS", "NewConnectionError: Name or service not known", "installing uv"),
            ("UV_SAYS", "error: dns error: failed to lookup address", "installing the Python"),
        ]
        for tool, text, step in failures:
            with self.subTest(tool=tool):
                result = self.run_setup(**{tool: text}, MISSING="ccache")
                self.assert_fails(result, f"{step} ", "registry cannot be reached")
                self.assertIn(text, result.stderr)

    def test_says_that_the_disk_is_full(self):
        self.assert_fails(self.run_setup(FREE_KB="3500000"), "3 GB free", "12 GB needed")
        self.assertFalse((self.root / ".venv").exists())
        self.assert_fails(self.run_setup(UV_SAYS="No space left on device"), "no room left")

    def test_needs_no_room_once_complete(self):
        self.assert_succeeds(self.run_setup())
        self.assert_succeeds(self.run_setup(FREE_KB="1000"))

    def test_says_that_a_package_is_missing(self):
        failures = {
            "APT_SAYS": "E: Unable to locate package ccache",
            "PIP_SAYS": "ERROR: No matching distribution found for uv",
            "UV_SAYS": "No solution found when resolving dependencies: torch==2.11.0",
        }
        for tool, text in failures.items():
            with self.subTest(tool=tool):
                result = self.run_setup(**{tool: text}, MISSING="ccache")
                self.assert_fails(result, "does not have a package")
                self.assertIn(text, result.stderr)

    def test_needs_root_or_sudo_to_install(self):
        result = self.run_setup(MISSING="g++ cmake", USER_ID="1000")
        self.assert_fails(result, "missing: g++ cmake", "neither root nor sudo")
        self.assert_succeeds(self.run_setup(USER_ID="1000"))

    def test_uses_sudo_where_it_is(self):
        self.stand_in("sudo", '#!/bin/sh\necho "sudo $*" >>"$CALLS"\n[ "$1" = -n ] || exec "$@"\n')
        self.assert_succeeds(self.run_setup(MISSING="cmake", USER_ID="1000"))
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", self.calls.read_text())

    def test_refuses_an_old_python(self):
        self.assert_fails(self.run_setup(OLD_PYTHON="1"), "too old", "3.10")

    def test_names_what_is_missing_on_other_systems(self):
        (self.bin / "apt-get").unlink()
        self.assert_fails(self.run_setup(), "neither Debian nor Ubuntu", "g++, cmake, ninja")
        for tool in ("g++", "cmake", "ninja"):
            self.stand_in(tool, "#!/bin/sh\n")
        self.stand_in("pkg-config", '#!/bin/sh\n[ "$2" != libhwy ] || [ -n "$HIGHWAY" ]\n')
        self.assert_fails(self.run_setup(), "missing: Highway (libhwy);")
        self.assert_succeeds(self.run_setup(HIGHWAY="1"))


if __name__ == "__main__":
    unittest.main()
