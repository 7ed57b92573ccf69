"""Every kind of wrong include makes tools/check_layers.py fail, and the tree as it is passes."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "check_layers.py"
FIRST_LINE = "// What is in this file.\n"


def run(root, *arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--root", str(root), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def outcome(self, path, include):
        """The checker's exit status and words for one file with one include on line 3."""
        self.write(path, f"{FIRST_LINE}\n#include {include}\n")
        result = run(self.root)
        (self.root / path).unlink()
        return result.returncode, result.stdout

    def assert_refused(self, path, include, words):
        with self.subTest(path=path, include=include):
            status, text = self.outcome(path, include)
            self.assertEqual(status, 1, text)
            self.assertTrue(text.startswith(f"{path}:3: {include[1:-1]}"), text)
            self.assertIn(words, text)

    def assert_allowed(self, path, include):
        with self.subTest(path=path, include=include):
            status, text = self.outcome(path, include)
            self.assertEqual(status, 0, text)

    def test_the_real_tree_passes(self):
        result = run(ROOT)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_an_empty_tree_passes(self):
        self.assertEqual(run(self.root).returncode, 0)

    def test_rooms_look_down_only(self):
        refused = [
            ("core", "kernels", "may use nothing of mala/"),
            ("io", "kernels", "may use core"),
            ("kernels", "ops", "may use core"),
            ("ops", "nn", "may use core, kernels"),
            ("data", "nn", "may use core"),
            ("nn", "io", "may use core, ops"),
            ("models", "data", "may use core, io, nn"),
            ("tasks", "train", "may use core, data, models"),
            ("train", "serve", "may use core, data, io, models, tasks"),
            ("serve", "train", "may use core, tasks"),
        ]
        for room, other, words in refused:
            self.assert_refused(f"mala/{room}/a.cpp", f'"mala/{other}/b.h"', words)
        for room, other in [("io", "core"), ("nn", "ops"), ("tasks", "data"), ("cli", "serve")]:
            self.assert_allowed(f"mala/{room}/a.cpp", f'"mala/{other}/b.h"')

    def test_libraries_stay_in_their_rooms(self):
        refused = [
            ("mala/kernels/a.cpp", "<torch/library.h>", "torch"),
            ("mala/core/a.h", "<ATen/ATen.h>", "torch"),
            ("mala/data/a.h", "<c10/util/Half.h>", "torch"),
            ("mala/serve/a.cpp", "<torch/torch.h>", "torch"),
            ("mala/nn/a.cpp", "<torch/csrc/distributed/c10d/Store.hpp>", "c10d"),
            ("mala/core/a.cpp", '"hwy/highway.h"', "Highway"),
            ("mala/ops/a.cpp", "<immintrin.h>", "SIMD"),
            ("mala/kernels/a.cpp", "<omp.h>", "OpenMP"),
            ("mala/nn/a.cpp", "<jpeglib.h>", "codec"),
            ("mala/io/a.cpp", "<zlib.h>", "codec"),
            ("mala/cli/a.cpp", "<httplib.h>", "httplib"),
            ("mala/serve/a.cpp", "<CLI/CLI.hpp>", "CLI11"),
            ("mala/models/a.cpp", "<toml++/toml.h>", "toml++"),
            ("mala/core/a.cpp", "<gtest/gtest.h>", "tests/ and bench/"),
            ("mala/core/a.cpp", "<boost/any.hpp>", "no known library"),
            ("mala/core/a.cpp", '"error.h"', "write mala/... from the root"),
            ("tests/kernels/a_test.cpp", "<torch/torch.h>", "torch"),
            ("tests/support/a.h", "<torch/torch.h>", "torch"),
        ]
        for path, include, words in refused:
            self.assert_refused(path, include, words)
        allowed = [
            ("mala/ops/a.cpp", "<torch/library.h>"),
            ("mala/train/a.cpp", "<torch/csrc/distributed/c10d/Store.hpp>"),
            ("mala/kernels/cpu/a-inl.h", '"hwy/highway.h"'),
            ("mala/core/a.cpp", "<omp.h>"),
            ("mala/core/a.cpp", "<nlohmann/json.hpp>"),
            ("mala/tasks/a.cpp", "<fmt/format.h>"),
            ("mala/data/a.cpp", "<png.h>"),
            ("mala/data/image/a.cpp", "<webp/decode.h>"),
            ("mala/io/a.cpp", "<nlohmann/json.hpp>"),
            ("mala/core/a.cpp", "<sys/mman.h>"),
            ("mala/core/a.cpp", "<vector>"),
            ("mala/kernels/a_c.h", "<stdint.h>"),
            ("tests/core/a_test.cpp", "<gtest/gtest.h>"),
            ("bench/a_bench.cpp", "<torch/torch.h>"),
        ]
        for path, include in allowed:
            self.assert_allowed(path, include)

    def test_cuda_stays_in_its_folder(self):
        header = "<cuda_runtime.h>"
        self.assert_refused("mala/kernels/cpu/a.cpp", header, "only cuda/")
        self.write("mala/kernels/cuda/launched.cu", FIRST_LINE)
        self.assert_refused("mala/kernels/cuda/launched.h", header, "launchers")
        self.assert_refused("mala/ops/attention_cpu.cpp", header, "named cuda")
        self.assert_refused("mala/ops/a.cpp", "<c10/cuda/CUDAStream.h>", "named cuda")
        self.assert_refused("mala/nn/a_cuda.cpp", header, "mala/kernels, mala/ops")
        self.assert_allowed("mala/kernels/cuda/a.cu", header)
        self.assert_allowed("mala/kernels/cuda/a.cuh", header)
        self.assert_allowed("mala/ops/attention_cuda.cpp", "<c10/cuda/CUDAStream.h>")

    def test_the_kernels_keep_their_private_headers(self):
        private, definition = '"mala/kernels/cpu/isa.h"', '"mala/kernels/reference/attention.h"'
        self.assert_refused("mala/ops/a.cpp", private, "mala/kernels/attention.h")
        self.assert_refused("mala/ops/a.cpp", definition, "only tests/ and bench/")
        self.assert_refused("mala/kernels/attention.cpp", definition, "only tests/ and bench/")
        self.assert_refused("examples/a.cpp", private, "private")
        self.assert_allowed("mala/ops/a.cpp", '"mala/kernels/attention.h"')
        self.assert_allowed("mala/kernels/attention.cpp", private)
        self.assert_allowed("tests/kernels/a_test.cpp", private)
        self.assert_allowed("tests/nn/a_test.cpp", definition)
        self.assert_allowed("bench/a_bench.cpp", definition)

    def test_the_library_does_not_know_its_tests(self):
        self.assert_refused("mala/core/a.cpp", '"tests/support/random.h"', "only tests/")
        self.assert_refused("examples/a.cpp", '"bench/support/roof.h"', "only tests/")
        self.assert_allowed("bench/a_bench.cpp", '"tests/support/random.h"')

    def test_unknown_rooms_are_named(self):
        self.assert_refused("mala/core/a.cpp", '"mala/misc/b.h"', "in no room")
        self.assert_refused("mala/core/a.cpp", '"mala/version.h"', "in no room")

    def test_the_line_is_that_of_the_include(self):
        text = FIRST_LINE + "\n#include <vector>\n\n#include <torch/torch.h>\n"
        self.write("mala/core/a.h", text)
        self.assertIn("mala/core/a.h:5: ", run(self.root).stdout)

    def test_files_say_what_is_in_them(self):
        for text in ["", "#pragma once\n", "// no sentence\n#pragma once\n", "//\n"]:
            with self.subTest(text=text):
                self.write("mala/core/a.h", text)
                result = run(self.root)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertTrue(result.stdout.startswith("mala/core/a.h:1: "), result.stdout)
        for text in ["// Views of memory.\n", "/* The C ABI. */\n", "// `a` over\n// two lines.\n"]:
            with self.subTest(text=text):
                self.write("mala/core/a.h", text)
                self.assertEqual(run(self.root).returncode, 0)

    def test_the_python_package_stands_on_torch(self):
        self.write("python/mala/a.py", "import os\nimport torch\nfrom . import b\nimport pandas\n")
        result = run(self.root)
        self.assertEqual(result.returncode, 1)
        expected = "python/mala/a.py:4: imports pandas, python/ may use mala, safetensors, timm, torch\n"
        self.assertEqual(result.stdout, expected)

    def test_sources_without_a_test_are_listed(self):
        self.write("mala/core/a.cpp", FIRST_LINE)
        self.write("mala/core/b.cpp", FIRST_LINE)
        self.write("mala/core/b_file.cpp", FIRST_LINE + '#include "mala/core/b.h"\n')
        self.write("mala/core/c.cpp", FIRST_LINE)
        self.write("tests/core/b_test.cpp", FIRST_LINE)
        self.write("tests/core/test_c.py", "")
        result = run(self.root, "--tests")
        self.assertEqual(result.returncode, 0)
        expected = "mala/core/a.cpp: no test is named after it or its header\n"
        self.assertEqual(result.stdout, expected)


if __name__ == "__main__":
    unittest.main()
