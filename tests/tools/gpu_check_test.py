"""Runs tools/gpu_check with programs that stand in for the GPU, the sanitizer, the tests and python."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSED, SKIPPED = "echo '[  PASSED  ] 3 tests.'", "echo '[  PASSED  ] 0 tests.'"
PYTHON = """case $1 in
  -c) echo /nowhere/torch/lib ;;
  -B) echo '5 passed, 100 deselected in 0.1s' ;;
  *) printf '# of the script\\nname,microseconds\\nmala,9.5\\n' ;;
esac"""


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools").mkdir()
        for name in ("gpu_check", "steps.sh"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")
        (self.root / "build/bin").mkdir(parents=True)
        self.program("path/nvidia-smi", "echo 'A GPU, 1.2'")
        self.program("path/compute-sanitizer", 'for last; do :; done; echo "ran $*"; ' + PASSED)
        self.program("path/python3", PYTHON)
        for name in ("devices_test", "cuda_attention_test", "ops_tests"):
            self.program(f"build/bin/{name}", PASSED)
        self.program("build/bin/cuda_attention_bench", "echo '1,1,8,8: forward 1.0 ms'")

    def program(self, path, script):
        file = self.root / path
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/bash\n" + script + "\n")
        file.chmod(0o755)

    def run_check(self, *arguments, **variables):
        environment = {**os.environ, **variables, "PATH": f"{self.root}/path:{os.environ['PATH']}"}
        command = [self.root / "tools/gpu_check", "--commit", "abc1234", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def test_every_step_runs_and_tables_are_dated(self):
        result = self.run_check("build")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        steps = ["devices_test", "cuda_attention_test", "ops_tests", "ops_python", "package",
                 "memcheck", "racecheck", "initcheck", "synccheck", "memcheck_ops",
                 "racecheck_causal", "memcheck_states", "synccheck_split",
                 "gpu_attention", "gpu_causal",
                 "gpu_causal_state", "gpu_tail", "gpu_overhead", "gpu_peers"]
        for step in steps:
            self.assertIn(f"{step}: good", result.stdout)
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
            self.assertIn(f"--tool {tool}", (self.root / f"build/gpu_check/{tool}.log").read_text())
        (table,) = self.root.glob("bench/results/*_gpu_overhead.csv")
        lines = table.read_text().splitlines()
        self.assertRegex(lines[0], r"^# date: \d{4}-\d\d-\d\d, commit: abc1234$")
        self.assertEqual(lines[1:], ["# machine: A GPU, 1.2", "name,microseconds", "mala,9.5"])
        for name in ("gpu_attention.txt", "gpu_causal.txt", "gpu_causal_state.txt",
                     "gpu_tail.txt", "gpu_peers.csv"):
            self.assertEqual(len(list(self.root.glob(f"bench/results/*_{name}"))), 1)

    def test_failures_are_counted_and_shown(self):
        self.program("build/bin/devices_test", "echo '[  FAILED  ] Devices.Some'; exit 1")
        self.program("build/bin/cuda_attention_bench", "echo 'half a table'; exit 1")
        result = self.run_check("build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("Devices.Some", result.stdout)
        self.assertIn("5 steps failed", result.stdout)  # four tables come from one program
        self.assertEqual(list(self.root.glob("bench/results/*_gpu_attention.txt")), [])

    def test_what_the_sanitizer_finds_fails(self):
        self.program("path/compute-sanitizer", "echo 'ERROR SUMMARY: 1 error'; exit 9")
        result = self.run_check("--only", "sanitizer", "build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("21 steps failed", result.stdout)

    def test_skipping_everything_is_no_success(self):
        self.program("build/bin/cuda_attention_test", SKIPPED)
        self.program("build/bin/cuda_attention_bench", "echo '[devices] no CUDA device: ...'")
        result = self.run_check("--only", "kernels,bench", "build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cuda_attention_test ran nothing", result.stdout)
        self.assertIn("gpu_attention ran nothing", result.stdout)

    def test_what_takes_too_long_fails(self):
        self.program("build/bin/devices_test", "sleep 30")
        result = self.run_check("--only", "kernels,bench", "build", MALA_GPU_CHECK_SECONDS="2")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, "devices_test took longer than [12] s")
        self.assertIn("gpu_peers did not begin; the 2 s of the whole are over", result.stdout)

    def test_results_go_where_they_are_wanted(self):
        result = self.run_check("--only", "bench", "--results", "elsewhere", "build")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotIn("ops_python", result.stdout)
        self.assertEqual(len(list(self.root.glob("elsewhere/*_gpu_overhead.csv"))), 1)

    def test_wrong_calls_are_explained(self):
        for arguments, message in (
            ([], "no build given"),
            (["nowhere"], "nowhere/bin is no folder"),
            (["--only", "tests", "build"], "unknown step 'tests'"),
            (["--fast", "build"], "unknown option --fast"),
        ):
            result = self.run_check(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr)
        self.program("path/nvidia-smi", "exit 9")
        self.assertIn("finds no GPU", self.run_check("build").stderr)


if __name__ == "__main__":
    unittest.main()
