"""./test and ./demo on a pretended build: what they run, what they count, how they fail."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CMAKE = """#!/bin/sh
echo "cmake $*" >>"$CALLS"
case "$*" in
  *--build*"$BREAK"*) [ -z "$BREAK" ] || { echo "a.cpp:1: error: broken"; exit 1; } ;;
esac
"""

# Ends as ctest does; RESULTS are failed, all, skipped and disabled.
CTEST = """#!/bin/sh
echo "ctest $*" >>"$CALLS"
set -- ${RESULTS:-0 5 0 0}
[ "$1" != none ] || { echo "No tests were found!!!"; exit 1; }
echo "90% tests passed, $1 tests failed out of $2"
echo "The following tests did not run:"
for i in $(seq "$3"); do echo "	  $i - kernels.skipped$i (Skipped)"; done
for i in $(seq "$4"); do echo "	  $i - kernels.disabled$i (Disabled)"; done
echo "The following tests FAILED:"
for i in $(seq "$1"); do echo "	  $i - kernels.broken$i (Failed)"; done
[ "$1" = 0 ]
"""


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "a tree"
        self.bin = Path(folder.name) / "bin"
        self.calls = Path(folder.name) / "calls"
        self.root.mkdir()
        for name in ("test", "demo", "tools/steps.sh", ".ci/run"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.write(self.bin / "cmake", CMAKE)
        self.write(self.bin / "ctest", CTEST)
        self.write(self.root / "tools" / "setup", '#!/bin/sh\n[ -z "$NO_SETUP" ]\n')
        for name in ("clang-format", "python"):
            self.write(self.root / ".venv" / "bin" / name, f'#!/bin/sh\n[ "$BREAK" != {name} ]\n')
        program = '#!/bin/sh\necho "shown $*"\n'
        for name in ("magnitude_demo", "mala"):
            self.write(self.root / "build" / "dev" / "bin" / name, program)

    def write(self, file, text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)

    def run_command(self, name, *arguments, **settings):
        """The exit status and the output of a command that runs from another folder."""
        self.calls.write_text("")
        path = f"{self.bin}:/usr/local/bin:/usr/bin:/bin"
        result = subprocess.run(
            [str(self.root / name), *arguments],
            cwd="/",
            env={"PATH": path, "CALLS": str(self.calls)} | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return result.returncode, result.stdout

    def last_line(self, *arguments, **settings):
        status, text = self.run_command("test", *arguments, **settings)
        return status, text.splitlines()[-1]

    def test_counts_everything_that_ran(self):
        self.assertEqual(self.last_line(), (0, "17 passed, 0 failed"))
        calls = self.calls.read_text().splitlines()
        presets = [line.split()[2] for line in calls if line.startswith("ctest")]
        self.assertEqual(presets, ["asan", "tsan", "dev"])

    def test_quick_is_dev_alone(self):
        self.assertEqual(self.last_line("--quick"), (0, "5 passed, 0 failed"))
        self.assertNotIn("asan", self.calls.read_text())

    def test_counts_skipped_tests(self):
        status, text = self.run_command("test", "--quick", RESULTS="0 5 2 1")
        self.assertEqual(status, 0)
        self.assertIn("skipped: kernels.skipped1\n", text)
        self.assertEqual(text.splitlines()[-1], "3 passed, 0 failed, 3 skipped")

    def test_counts_failed_tests(self):
        status, text = self.run_command("test", "--quick", RESULTS="2 5 1 0")
        self.assertEqual(status, 1)
        self.assertIn("kernels.broken2", text)
        self.assertEqual(text.splitlines()[-1], "2 passed, 2 failed, 1 skipped")

    def test_no_tests_at_all_is_a_failure(self):
        self.assertEqual(self.last_line("--quick", RESULTS="none"), (1, "0 passed, 1 failed"))

    def test_a_broken_build_fails_and_shows_its_log(self):
        status, text = self.run_command("test", BREAK="dev")
        self.assertEqual(status, 1)
        self.assertIn("a.cpp:1: error: broken", text)
        self.assertEqual(text.splitlines()[-1], "12 passed, 1 failed")

    def test_a_broken_rule_fails(self):
        self.assertEqual(self.last_line(BREAK="python"), (1, "16 passed, 1 failed"))
        self.write(self.root / "mala" / "a.cpp", "int a;\n")
        self.assertEqual(self.last_line(BREAK="clang-format"), (1, "16 passed, 1 failed"))

    def test_a_failed_set_up_ends_it(self):
        self.assertEqual(self.last_line(NO_SETUP="1"), (1, "0 passed, 1 failed"))
        self.assertEqual(self.calls.read_text(), "")

    def test_unknown_options_are_named(self):
        status, text = self.run_command("test", "--fast")
        self.assertEqual(status, 2)
        self.assertIn("unknown option '--fast'", text)

    def test_help_does_nothing(self):
        status, text = self.run_command("test", "--help")
        self.assertEqual(status, 0)
        self.assertIn("--quick", text)
        self.assertEqual(self.calls.read_text(), "")

    def test_demo_builds_and_runs_its_programs(self):
        status, text = self.run_command("demo")
        self.assertEqual(status, 0, text)
        self.assertIn("--target magnitude_demo mala", self.calls.read_text())
        shown = [line for line in text.splitlines() if line.startswith("shown")]
        self.assertEqual([line.split()[1:2] for line in shown], [[], ["predict"], ["explain"]])

    def test_demo_explains_itself_before_it_does_anything(self):
        for argument, wanted in (("--help", 0), ("--nonsense", 2)):
            status, text = self.run_command("demo", argument)
            self.assertEqual(status, wanted, text)
            self.assertIn("usage: ./demo", text)
            self.assertNotIn("shown", text)

    def test_demo_stops_at_a_broken_build(self):
        status, text = self.run_command("demo", BREAK="dev")
        self.assertNotEqual(status, 0)
        self.assertNotIn("shown", text)

    def test_ci_runs_the_tests(self):
        status, text = self.run_command(".ci/run", "--quick")
        self.assertEqual((status, text.splitlines()[-1]), (0, "5 passed, 0 failed"))


if __name__ == "__main__":
    unittest.main()
