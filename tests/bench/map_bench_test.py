"""map_bench on the shipped model: against itself, and what it refuses; and the chart of mixers."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/mavit_n.safetensors"


def run(*words):
    return subprocess.run([os.environ["MAP_BENCH"], *map(str, words)], capture_output=True,
                          text=True, timeout=300)


class MapBench(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("cat", "dog"):
            (self.folder / name).mkdir()
            shutil.copy(ROOT / f"examples/pictures/{name}_1.jpg", self.folder / name)

    def rows(self, *words):
        result = run("--data", self.folder, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line.rsplit(maxsplit=3) for line in result.stdout.splitlines()[1:] if line]
        return {label.split(maxsplit=1)[1].strip(): [float(x) for x in figures]
                for label, *figures in lines}

    def test_a_model_beside_itself(self):
        rows = self.rows("--beside", MODEL, MODEL)
        beside = next(name for name in rows if "beside" in name)
        self.assertEqual(rows[beside][:2], [0.0, 1.0])
        self.assertEqual(rows["as trained"], rows["mala"])  # the rule that it has
        for name in ("linear", "inline", "mala_balanced"):
            self.assertGreater(rows[name][0], 0.0)
            # All rise with one score, so that they order keys alike.
            self.assertAlmostEqual(rows[name][1], rows["mala"][1], places=2)

    def test_refuses_in_words(self):
        for words, said in ((["--data", self.folder], "files of models"),
                            (["--data", self.folder, "--pictures", "0", MODEL], "above 0"),
                            (["--data", self.folder, "none.safetensors"], "none.safetensors"),
                            (["--shiny", "1", MODEL], "--shiny")):
            result = run(*words)
            self.assertEqual(result.returncode, 2)
            self.assertIn(said, result.stderr)

    def test_the_chart_has_every_mixer(self):
        subprocess.run([sys.executable, ROOT / "tools/draw_mixers.py", "--folder", self.folder],
                       check=True, capture_output=True)
        for theme in ("light", "dark"):
            drawn = (self.folder / f"mixers_{theme}.svg").read_text()
            for name in ("softmax", "MALA, published", "MALA, balanced", "linear", "InLine"):
                self.assertIn(f">{name}<", drawn)


if __name__ == "__main__":
    unittest.main()
