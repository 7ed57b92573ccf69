"""Runs model_bench on the smallest model: its rows, its comparison and its refusals."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BENCH = os.environ["MODEL_BENCH"]
KEYS = {"name", "pass", "shape", "dtype", "device", "impl", "ms", "limit_ms"}
SMALL = ["--models", "mavit_n", "--size", "32x40", "--repeats", "2",
         "--threads", "1"]


def run(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=300)


class ModelBench(unittest.TestCase):
    def rows(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.json"
            result = run(*SMALL, *arguments, "--json", str(path))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return json.loads(path.read_text())

    def test_rows(self):
        rows = self.rows("--batch", "1,2", "--dtype", "float32,bfloat16")
        seen = [(row["shape"], row["dtype"], row["impl"]) for row in rows]
        expected = [(shape, dtype, impl) for dtype in ("float32", "bfloat16")
                    for shape in ("1,3,32,40", "2,3,32,40") for impl in ("mala", "published")]
        self.assertEqual(seen, expected)
        for row in rows:
            self.assertEqual(set(row), KEYS)
            self.assertEqual((row["name"], row["pass"], row["device"]),
                             ("mavit_n", "forward", "cpu"))
            self.assertGreater(row["ms"], 0)
            self.assertGreater(row["limit_ms"], 0)

    def test_mixers_that_were_not_published_run_alone(self):
        rows = self.rows("--mixers", "linear,inline,mala,softmax")
        self.assertEqual([row["impl"] for row in rows], ["mala"])

    def test_refusals(self):
        for arguments, part in (
            (["--models", "mavit_x"], "there are mavit_n"),
            (["--size", "x12"], "--size got ''"),
            (["--size", "1x2x3"], "needs 224 or 512x2048"),
            (["--dtype", "float16"], "knows float32 and bfloat16"),
            (["--mixers", "mamba"], "is no mixer"),
            (["--batch", "0"], "needs a number above 0"),
            (["--json"], "needs a value"),
            (["--speed"], "unknown argument '--speed'"),
        ):
            result = run(*SMALL, *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(part, result.stderr)


if __name__ == "__main__":
    unittest.main()
