"""Installs the build into a new prefix, moves it, and uses it as strangers do: examples and docs.

    install_test.py --source TREE --build BUILD --version 0.1.0
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

OPTIONS = argparse.ArgumentParser(description=__doc__.splitlines()[0])
OPTIONS.add_argument("--source", type=pathlib.Path, required=True)
OPTIONS.add_argument("--build", type=pathlib.Path, required=True)
OPTIONS.add_argument("--version", required=True)
OPTIONS.add_argument("--torch", type=pathlib.Path, help="where torch is; without it no models")
OPTIONS.add_argument("--skip", metavar="REASON", help="do nothing but say why, and end with 77")

# The functions of attention.h, causal.h and split.h.
ENTRIES = ["attention_forward", "attention_backward", "attention_scratch_bytes",
           "causal_forward", "causal_backward", "causal_step",
           "causal_forward_scratch_bytes", "causal_backward_scratch_bytes",
           "keys_forward", "keys_backward", "keys_scratch_bytes",
           "queries_forward", "queries_backward", "queries_scratch_bytes"]
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic"]
PURE_C_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(pure_c LANGUAGES C)
find_package(mala {version} REQUIRED)
add_executable(attention_c {source}/examples/attention.c)
target_link_libraries(attention_c PRIVATE mala::shared)
"""


def run(*command, **extra):
    """What the command prints; the end of it is the error when the command fails."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **extra)
    if done.returncode != 0:
        line = " ".join(str(part) for part in command)
        raise AssertionError(f"{line}\nended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def code_blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="mala-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run("cmake", "--install", options.build, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.library = next(cls.prefix.rglob("libmala.so")).parent
        cls.examples = options.source / "examples"
        cls.page = (options.source / "docs/interfaces.md").read_text()

    def environment(self, library=None):
        library = library or self.library
        return {**os.environ, "PKG_CONFIG_PATH": f"{library}/pkgconfig",
                "LD_LIBRARY_PATH": str(library), "OMP_NUM_THREADS": "2"}

    def build_project(self, source, name):
        build = self.folder / name
        run("cmake", "-S", source, "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        return build

    def check_c(self, program):
        text = run(program, env=self.environment())
        self.assertIn(f"mala {options.version}, weights", text)
        self.assertEqual(text.count("sum 1.0000"), 8, text)
        self.assertRegex(text, r"refused: \[mala_attention_forward\] .*7.*8")

    def check_cpp(self, program):
        rows = [[float(x) for x in line.split()]
                for line in run(program, env=self.environment()).splitlines()[1:]]
        self.assertEqual([row[0] for row in rows], [0.25, 0.5, 1, 2])
        shares = [row[1] for row in rows]
        self.assertEqual(shares, sorted(set(shares)), "a longer query must sharpen mala")
        self.assertEqual(len({row[3] for row in rows}), 1, "linear must not feel the length")
        self.assertTrue(all(0 < row[3] < row[1] < 1 for row in rows), rows)

    def check_difference(self, program, begin):
        """Two ways to the same numbers, up to the rounding of float32."""
        text = run(program, env=self.environment())
        self.assertRegex(text, rf"^{begin}, largest difference \d")
        self.assertLess(float(text.split()[-1]), 1e-5)

    def check_examples(self, build):
        self.check_c(build / "attention_c")
        self.check_cpp(build / "attention_cpp")
        self.check_difference(build / "causal_cpp", "100 tokens")
        self.check_difference(build / "shards_c", "10 and 14 keys")

    def check_unknown_instruction_set(self, program):
        """The program must be able to catch what the library throws, whichever thread finds it."""
        done = subprocess.run([program], env={**self.environment(), "MALA_ISA": "none such"},
                              capture_output=True, text=True)
        self.assertIn("instruction set 'none such' is not one", done.stderr)
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_each_header_stands_alone(self):
        include = self.prefix / "include"
        headers = sorted(str(path.relative_to(include)) for path in include.rglob("*.h"))
        # Those with torch take half a minute each; examples/classify.cpp has most of them.
        headers = [name for name in headers if name.split("/")[1] not in {"nn", "models", "ops"}]
        for name in ("attention", "causal", "split"):
            self.assertIn(f"mala/kernels/{name}.h", headers)
            self.assertIn(f"mala/kernels/{name}_c.h", headers)
        for header in headers:
            compilers = [("c++", "-std=c++20")]
            if header.endswith("_c.h"):
                compilers += [("c++", "-std=c++11"), ("c", "-std=c11")]
            for language, standard in compilers:
                run("c++" if language == "c++" else "cc", standard, *STRICT, "-fsyntax-only",
                    "-I", include, "-include", header, "-x", language, os.devnull)

    def test_cmake_package(self):
        build = self.build_project(self.examples, "examples")
        self.check_examples(build)
        needed = run("readelf", "--dynamic", build / "attention_c")
        self.assertRegex(needed, r"NEEDED.*libmala\.so\.")
        needed = run("readelf", "--dynamic", build / "attention_cpp")
        self.assertNotIn("libmala", needed)
        self.check_unknown_instruction_set(build / "attention_cpp")

    def test_cmake_package_with_the_libraries_swapped(self):
        swapped = self.folder / "swapped_source"
        shutil.copytree(self.examples, swapped)
        text = (swapped / "CMakeLists.txt").read_text()
        swap = {"mala::shared": "mala::kernels", "mala::kernels": "mala::shared"}
        text = re.sub("|".join(swap), lambda match: swap[match[0]], text)
        (swapped / "CMakeLists.txt").write_text(text)
        build = self.build_project(swapped, "swapped")
        self.check_examples(build)
        self.check_unknown_instruction_set(build / "attention_cpp")

    def test_cmake_package_in_a_project_without_cpp(self):
        source = self.folder / "pure_c_source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            PURE_C_PROJECT.format(version=options.version, source=options.source))
        self.check_c(self.build_project(source, "pure_c") / "attention_c")

    def test_commands_of_the_page(self):
        """Each compiler line of the page, in a copy of examples/."""
        commands = [line for block in code_blocks(self.page, "sh")
                    for line in block.splitlines() if re.match(r"(cc|c\+\+) ", line)]
        self.assertEqual(len(commands), 2, self.page)
        folder = self.folder / "by_hand"
        shutil.copytree(self.examples, folder)
        for command in commands:
            run("sh", "-ec", command, cwd=folder, env=self.environment())
        self.check_c(folder / "attention_c")
        self.check_cpp(folder / "attention_cpp")

    def test_pkg_config_with_only_the_static_library(self):
        prefix = self.folder / "static"
        shutil.copytree(self.prefix, prefix, symlinks=True,
                        ignore=shutil.ignore_patterns("libmala_*", "bin"))  # large, and not used
        for shared in prefix.rglob("libmala.so*"):
            shared.unlink()
        library = next(prefix.rglob("libmala.a")).parent
        program = self.folder / "static_c"
        run("sh", "-ec", f"cc {self.examples}/attention.c -o {program} "
            "$(pkg-config --static --cflags --libs mala)", env=self.environment(library))
        self.check_c(program)

    def write_picture(self):
        """A PPM with colours that run across it."""
        path = self.folder / "picture.ppm"
        pixels = bytes(value for y in range(40) for x in range(60)
                       for value in (4 * x, 6 * y, (x * y) % 256))
        path.write_bytes(b"P6 60 40 255\n" + pixels)
        return path

    def test_models(self):
        """The example and the installed program see the same in a picture."""
        if not options.torch:
            self.skipTest("this build has no models")
        build = self.folder / "with_models"
        run("cmake", "-S", self.examples, "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DMALA_TORCH_DIR={options.torch}")
        run("cmake", "--build", build, "--target", "classify")
        picture = self.write_picture()
        weights = options.source / "tests/golden/tiny_mavit_weights.safetensors"
        index, name, probability = run(build / "classify", weights, picture).split()
        answer = run(self.prefix / "bin/mala", "predict", picture, "--weights", weights, "--json",
                     "--quiet", "--device", "cpu")
        best = json.loads(answer)["predictions"][0]
        self.assertEqual((int(index), name), (best["index"], "class"))
        self.assertAlmostEqual(float(probability), best["probability"], places=3)
        done = subprocess.run([build / "classify", weights, "none.png"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.png", done.stderr)

    def test_models_without_torch_say_what_is_missing(self):
        source = self.folder / "torchless_source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(torchless LANGUAGES CXX)\n"
            "find_package(mala REQUIRED COMPONENTS models)\n")
        with self.assertRaisesRegex(AssertionError, "torch"):
            run("cmake", "-S", source, "-B", source / "build", "-G", "Ninja",
                f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DMALA_TORCH_DIR=/nowhere")

    def test_versions_agree(self):
        version = run("pkg-config", "--modversion", "mala", env=self.environment())
        self.assertEqual(version.strip(), options.version)
        self.assertTrue((self.library / f"libmala.so.{options.version}").exists())

    def test_shared_library_shows_only_the_interface(self):
        mangled = "|".join(f"{len(entry)}{entry}" for entry in ENTRIES)
        public = re.compile(rf"mala_\w+|_ZN4mala({mangled})I([fd]|NS_7Float16E|NS_8BFloat16E)E.*"
                            r"|_ZT[ISV]N4mala5ErrorE")
        names = [line.split()[-1] for line in
                 run("nm", "-D", "--defined-only", self.library / "libmala.so").splitlines()]
        self.assertEqual([name for name in names if not public.fullmatch(name)], [])
        templates = [name for name in names if name.startswith("_ZN")]
        self.assertEqual(len(templates), 4 * len(ENTRIES), names)  # of four element types

    def test_nothing_installed_names_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.is_file() and path.suffix in {".h", ".pc", ".cmake"}:
                text = path.read_text()
                for folder in (options.source, options.build, self.folder):
                    self.assertNotIn(str(folder), text, path)

    def test_page_shows_the_examples(self):
        shown = {"c": "*.c", "cpp": "*.cpp", "cmake": "CMakeLists.txt"}
        for language, pattern in shown.items():
            examples = [path.read_text() for path in self.examples.glob(pattern)]
            blocks = [block for block in code_blocks(self.page, language)
                      if "add_subdirectory" not in block]
            self.assertTrue(blocks, language)
            for block in blocks:
                indented = [textwrap.indent(block, " " * depth) for depth in (0, 2)]
                self.assertTrue(any(text in example for text in indented for example in examples),
                                f"docs/interfaces.md and examples/{pattern} differ:\n{block}")

    def test_page_shows_how_to_take_the_tree_into_another(self):
        """Configures and stops there: building it all again would teach nothing."""
        [block] = [block for block in code_blocks(self.page, "cmake")
                   if "add_subdirectory" in block]
        source = self.folder / "outer"
        shutil.copytree(self.examples, source)
        (source / "mala").symlink_to(options.source)
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(outer LANGUAGES C CXX)\n" + block)
        run("cmake", "-S", source, "-B", source / "build", "-G", "Ninja")
        rules = run("cmake", "--build", source / "build", "--", "-t", "query", "attention_cpp")
        self.assertIn("libmala_kernels.a", rules)


if __name__ == "__main__":
    options, rest = OPTIONS.parse_known_args()
    if options.skip:
        print("skipped:", options.skip)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + rest, verbosity=2)
