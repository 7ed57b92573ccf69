"""Runs train_bench on the smallest model: its rows, its comparison and its refusals."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BENCH = os.environ["TRAIN_BENCH"]
SMALL = ["--model", "mavit_n", "--size", "32", "--batch", "2", "--repeats", "2", "--threads", "1"]


def run(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=300)


class TrainBench(unittest.TestCase):
    def test_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.json"
            result = run(*SMALL, "--json", str(path))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            rows = json.loads(path.read_text())
        self.assertEqual([row["impl"] for row in rows], ["mala", "published"])
        for row in rows:
            self.assertEqual((row["name"], row["pass"], row["shape"]),
                             ("mavit_n", "training step", "2,3,32,32"))
            self.assertGreater(row["images_per_second"], 0)
            # Weights, gradients and moments stay; a step needs at least its pictures.
            self.assertGreater(row["peak_bytes"], 2 * 3 * 32 * 32 * 4)

    def test_refusals(self):
        for arguments, part in (
            (["--model", "mavit_x"], "there are mavit_n"),
            (["--precision", "int8"], "knows float32, bfloat16 and float16"),
            (["--device", "tpu"], "knows cpu and cuda"),
            (["--batch", "0"], "needs a number above 0"),
            (["--json"], "needs a value"),
            (["--speed", "1"], "unknown argument '--speed'"),
        ):
            result = run(*SMALL, *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(part, result.stderr)


if __name__ == "__main__":
    unittest.main()
