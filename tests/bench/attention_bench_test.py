"""Runs attention_bench on small shapes: its rows, its refusals, and the pictures drawn of them."""

import csv
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
FORWARD, BOTH = "forward", "forward_backward"
# The rows of each section on one shape, as (name, dtype, impl), for each of its passes.
ROWS = {
    "shapes": ({FORWARD, BOTH}, {("attention", "float32", impl)
                                 for impl in ("mala", "published", "sdpa")}),
    "causal": ({FORWARD, BOTH}, {("causal", "float32", "sdpa")} |
               {(name, "float32", impl) for name in ("bidirectional", "causal")
                for impl in ("mala", "kernels")}),
    "packed": ({FORWARD, BOTH}, {(name, "float32", "kernels")
                                 for name in ("bidirectional", "packed", "causal",
                                              "packed_causal")}),
    "decode": ({FORWARD}, {("decode", dtype, impl) for dtype in ("float32", "bfloat16")
                           for impl in ("mala", "kernels")}),
    "types": ({FORWARD, BOTH}, {(name, dtype, "kernels") for name in ("attention", "causal")
                                for dtype in ("float32", "bfloat16", "float16")}),
    "length": ({FORWARD}, {(name, "float32", "kernels") for name in ("bidirectional", "causal")}),
}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def read_csv(path):
    with open(path) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


class InFolder(unittest.TestCase):
    """Runs of the program that write into a folder of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rows(self, *arguments):
        """Of a run that succeeds: those of its JSON and those of its CSV."""
        paths = [self.folder / "rows.json", self.folder / "rows.csv"]
        result = run(BENCH, *arguments, "--json", str(paths[0]), "--csv", str(paths[1]))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(paths[0].read_text()), read_csv(paths[1])


class AllSections(InFolder):
    """One run of everything on one small shape."""

    def test_rows(self):
        listed, table = self.rows("--section", "all", *SMALL)
        self.assertEqual(len(listed), len(table))
        for row in listed:
            self.assertEqual(set(row), KEYS)
            shape = "1,2,1,32" if row["name"] == "decode" else "1,2,196,32"
            self.assertEqual((row["shape"], row["device"]), (shape, "cpu"))
            self.assertGreater(row["ms"], 0)
            self.assertGreater(row["limit_ms"], 0)
        for section, (passes, expected) in ROWS.items():
            rows = [row for row in table if row["section"] == section]
            self.assertEqual({row["pass"] for row in rows}, passes, section)
            for one_pass in passes:
                self.assert_same_rows([row for row in rows if row["pass"] == one_pass], expected)
        self.assert_backward_counts_its_flop(table)
        self.assert_ratios_are_of_two_times(table)
        self.assert_types_differ_by_their_rounding(table)

    def assert_same_rows(self, rows, expected):
        seen = [(row["name"], row["dtype"], row["impl"]) for row in rows]
        self.assertEqual(sorted(seen), sorted(expected))

    def assert_backward_counts_its_flop(self, table):
        """Rate times time is the flop, whatever the time was: 4 N D^2 a head, 14 with backward."""
        flop = {row["pass"]: float(row["gflops"]) * float(row["ms"]) for row in table
                if row["section"] == "shapes" and row["impl"] == "mala"}
        self.assertAlmostEqual(flop[BOTH] / flop[FORWARD], 14 / 4, delta=0.05)

    def assert_ratios_are_of_two_times(self, table):
        rows = [row for row in table if row["section"] == "packed"]
        ms = {(row["name"], row["pass"]): float(row["ms"]) for row in rows}
        for row in rows:
            alone = "causal" if "causal" in row["name"] else "bidirectional"
            expected = float(row["ms"]) / ms[alone, row["pass"]]
            self.assertAlmostEqual(float(row["ratio"]) / expected, 1, delta=1e-3)

    def assert_types_differ_by_their_rounding(self, table):
        for dtype, fewest, most in (("float32", 0, 2e-5), ("float16", 2e-5, 2**-11 + 2e-5),
                                    ("bfloat16", 2**-11 + 2e-5, 2**-8 + 2e-5)):
            errors = [float(row["error"]) for row in table
                      if row["dtype"] == dtype and row["section"] == "types"]
            self.assertEqual(len(errors), 4, dtype)
            for error in errors:
                self.assertGreater(error, fewest, dtype)
                self.assertLessEqual(error, most, dtype)


class AttentionBench(InFolder):
    def test_shapes_fit_the_section(self):
        listed, _ = self.rows("--section", "packed,decode", "--shapes", "2,2,100,16", "--repeats",
                              "1", "--passes", FORWARD, "--impl", "kernels")
        for row in listed:
            expected = "2,2,1,16" if row["name"] == "decode" else "1,2,200,16"
            self.assertEqual(row["shape"], expected)

    def test_length_shows_the_same_memory_and_becomes_a_picture(self):
        shapes = "1,1,16384,16;1,1,65536,16"
        _, table = self.rows("--section", "length", "--shapes", shapes, "--repeats", "1")
        for name in ("bidirectional", "causal"):
            memory = {row["memory_bytes"] for row in table if row["name"] == name}
            self.assertEqual(len(memory), 1, name)
            self.assertGreater(int(memory.pop()), 0)
        self.assert_draws("draw_length.py", "length")

    def test_sweep_becomes_a_picture(self):
        shapes = "1,1,1024,32;1,1,2048,32"
        self.rows("--shapes", shapes, "--passes", FORWARD, "--repeats", "1")
        self.assert_draws("draw_figure.py", "time_per_token")

    def assert_draws(self, script, name):
        drawn = run(sys.executable, str(ROOT / "tools" / script), str(self.folder / "rows.csv"),
                    "--folder", str(self.folder))
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        pictures = sorted(self.folder.glob("*.svg"))
        self.assertEqual([path.name for path in pictures],
                         [f"{name}_dark.svg", f"{name}_light.svg"])
        for picture in pictures:
            root = xml.etree.ElementTree.parse(picture).getroot()
            self.assertTrue(root.findall(".//{http://www.w3.org/2000/svg}polyline"))

    def test_pictures_refuse_another_table(self):
        table = self.folder / "rows.csv"
        table.write_text("name,pass,batch,heads,tokens,dim,dtype,impl,ms,memory_bytes\n"
                         "decode,forward,1,1,1,8,float32,kernels,1,1\n")
        for script, words in (("draw_length.py", "--section length"),
                              ("draw_figure.py", "--sweep")):
            drawn = run(sys.executable, str(ROOT / "tools" / script), str(table), "--folder",
                        str(self.folder))
            self.assertNotEqual(drawn.returncode, 0)
            self.assertIn(words, drawn.stderr)

    def test_refusals_say_what_to_do(self):
        for arguments, words in ((["--nonsense"], ["--nonsense", "--help"]),
                                 (["--shapes", "1,2,3"], ["1,2,3"]),
                                 (["--section", "speed"], ["speed", "causal", "decode", "all"]),
                                 (["--section", ""], ["--section is empty"]),
                                 (["--section"], ["--section needs a value"]),
                                 (["--dtype", "float8"], ["float8", "bfloat16"]),
                                 (["--dtype", ""], ["--dtype is empty"]),
                                 (["--section", "causal", "--impl", "published"],
                                  ["causal", "--impl"]),
                                 (["--section", "decode", "--passes", "forward_backward"],
                                  ["decode", "--passes"]),
                                 (["--json", "/no/such/folder/x.json", *SMALL], ["/no/such"]),
                                 (["--csv", "/no/such/folder/x.csv", *SMALL], ["/no/such"])):
            result = run(BENCH, *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertNotIn("measuring", result.stderr)  # it says so at once
            for word in words:
                self.assertIn(word, result.stderr)

    def test_demo_agrees_with_the_formulas(self):
        result = run(DEMO, "2048")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("at 2048 tokens", result.stdout)
        self.assertIn("softmax", result.stdout)
        self.assertIn("MALA", result.stdout)
        for wrong in (["3"], ["many"], ["2048", "4096"]):
            refused = run(DEMO, *wrong)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("[magnitude_demo]", refused.stderr)


if __name__ == "__main__":
    unittest.main()
