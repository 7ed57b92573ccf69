"""Runs attention_bench on small shapes: its JSON and CSV, its refusals, and the picture drawn of it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BENCH = os.environ["ATTENTION_BENCH"]
DEMO = os.environ["MAGNITUDE_DEMO"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = {"name", "pass", "shape", "dtype", "device", "impl", "ms", "limit_ms"}
SMALL = ["--shapes", "1,2,196,32", "--repeats", "2"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class AttentionBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_json_rows(self):
        path = self.folder / "rows.json"
        result = run(BENCH, *SMALL, "--json", str(path))
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(path.read_text())
        for row in rows:
            self.assertEqual(set(row), KEYS)
            self.assertEqual((row["shape"], row["device"]), ("1,2,196,32", "cpu"))
            self.assertGreater(row["ms"], 0)
            self.assertGreater(row["limit_ms"], 0)
        seen = {(row["impl"], row["pass"]) for row in rows}
        for impl in ("mala", "published", "sdpa"):
            for which in ("forward", "forward_backward"):
                self.assertIn((impl, which), seen)

    def test_limit_is_flop_over_the_peak(self):
        path = self.folder / "rows.json"
        self.assertEqual(run(BENCH, *SMALL, "--json", str(path)).returncode, 0)
        limits = {}
        for row in json.loads(path.read_text()):
            limits.setdefault(row["pass"], set()).add(row["limit_ms"])
        # One limit a case. The rate is measured for each case, so the flop show but roughly.
        (forward,), (both,) = limits["forward"], limits["forward_backward"]
        self.assertAlmostEqual(both / forward, 14 / 4, delta=1.5)

    def test_csv_becomes_a_picture(self):
        table = self.folder / "sweep.csv"
        shapes = "1,1,1024,32;1,1,2048,32"
        result = run(BENCH, "--shapes", shapes, "--passes", "forward", "--repeats", "1",
                     "--csv", str(table))
        self.assertEqual(result.returncode, 0, result.stderr)
        drawn = run(sys.executable, str(ROOT / "tools/draw_figure.py"), str(table), "--folder",
                    str(self.folder))
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        pictures = sorted(self.folder.glob("*.svg"))
        self.assertEqual(len(pictures), 2)
        for picture in pictures:
            xml.etree.ElementTree.parse(picture)

    def test_refusals_say_what_to_do(self):
        for arguments, words in ((["--nonsense"], ["--nonsense", "--help"]),
                                 (["--shapes", "1,2,3"], ["1,2,3"]),
                                 (["--json", "/no/such/folder/x.json", *SMALL], ["/no/such"])):
            result = run(BENCH, *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            for word in words:
                self.assertIn(word, result.stderr)

    def test_demo_agrees_with_the_formulas(self):
        result = run(DEMO)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("softmax", result.stdout)
        self.assertIn("MALA", result.stdout)


if __name__ == "__main__":
    unittest.main()
