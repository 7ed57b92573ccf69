"""tools/fuzz.py on machines without a fuzzer, and with wrong words on its line."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "fuzz.py"


class Fuzz(unittest.TestCase):
    def run_fuzz(self, *arguments, clang=None):
        """Runs it where PATH has a clang++ of these words, or none."""
        with tempfile.TemporaryDirectory() as folder:
            if clang is not None:
                program = Path(folder) / "clang++"
                program.write_text(clang)
                program.chmod(0o755)
            return subprocess.run(
                [sys.executable, str(SCRIPT), "--build", f"{folder}/build", *arguments],
                env={"PATH": folder},
                capture_output=True,
                text=True,
                check=False,
            )

    def test_skips_where_there_is_no_clang(self):
        result = self.run_fuzz()
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertIn("skipped: no clang++ found", result.stdout)

    def test_skips_where_clang_has_no_fuzzer(self):
        result = self.run_fuzz(clang="#!/bin/sh\nexit 1\n")
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertIn("has no libFuzzer", result.stdout)

    def test_names_the_fuzzers(self):
        result = self.run_fuzz("pht")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no fuzzer is called pht; there are safetensors, pth, image", result.stderr)
        self.assertEqual(self.run_fuzz("--seconds", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main()
