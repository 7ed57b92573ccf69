#!/usr/bin/env python3
"""Keeps the table of docs/architecture.md: which folder may include what.

Fails with `file:line: what came, what is allowed` for every include that the table does not allow,
and for every source file whose first line does not say what is in it. `--tests` also lists the
sources that no test is named after; that list is for reading and fails nothing.
"""

import argparse
import ast
import re
import sys
from pathlib import Path

# Which rooms of mala/ a room may include, besides itself.
MAY_USE = {
    "core": set(),
    "io": {"core"},
    "kernels": {"core"},
    "ops": {"core", "kernels"},
    "data": {"core"},
    "nn": {"core", "ops"},
    "models": {"core", "io", "nn"},
    "tasks": {"core", "data", "models"},
    "train": {"core", "io", "data", "models", "tasks"},
    "serve": {"core", "tasks"},
    "cli": {"core", "io", "kernels", "ops", "data", "nn", "models", "tasks", "train", "serve"},
}
ROOMS = set(MAY_USE)
ABOVE_KERNELS = ROOMS - {"core", "io", "kernels", "data"}

# Other people's libraries: how their headers begin, and the rooms that may include them. The
# first kind that fits a header counts.
LIBRARIES = {
    "CUDA": (
        r"(cuda|cublas|cudnn|curand|cusparse|cusolver|nccl|nvrtc|nvtx|cooperative_groups|cub/"
        r"|thrust/|cutlass/|cute/|mma\.h|(ATen|c10)/cuda/)",
        {"kernels", "ops"},
    ),
    "c10d": (r"(torch/csrc/distributed/|c10d/)", {"train", "cli"}),
    "torch": (r"(torch|ATen|c10|caffe2)/", ABOVE_KERNELS - {"serve"}),
    "Highway": (r"hwy/", {"kernels"}),
    "SIMD intrinsics": (r"(\w+intrin|arm_neon|arm_sve)\.h$", {"kernels"}),
    "OpenMP": (r"omp\.h$", {"core"}),
    "fmt": (r"fmt/", ROOMS),
    "nlohmann-json": (r"nlohmann/", ROOMS),
    "a codec": (
        r"(jpeglib|turbojpeg|jerror|png|sndfile|zlib|archive|archive_entry|zstd)\.h$"
        r"|(sndfile\.hh$|webp/|sentencepiece)",
        {"data"},
    ),
    "toml++": (r"toml(\+\+/|\.hpp$)", {"train", "cli"}),
    "httplib": (r"(cpp-)?httplib", {"serve"}),
    "CLI11": (r"CLI/", {"cli"}),
    "GoogleTest": (r"(gtest|gmock)/", set()),
    "Google Benchmark": (r"benchmark/", set()),
}

# All that other rooms may know of the kernels, and the libraries that only part of a room may use.
PUBLIC_KERNELS = {
    f"mala/kernels/{name}.h"
    for name in (
        "attention", "attention_c", "causal", "causal_c", "cuda/attention", "cuda/causal",
        "cuda/split", "split", "split_c",
    )
}
PYTHON_MAY_IMPORT = {"mala", "torch", "timm", "safetensors"}

STANDARD_C = set(
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal"
    " stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib string tgmath threads time"
    " uchar wchar wctype"  # the language; the rest is the operating system
    " cpuid cxxabi dirent dlfcn execinfo fcntl getopt glob link malloc netdb poll pthread pwd"
    " sched semaphore spawn strings termios unistd".split()
)
SYSTEM_FOLDERS = ("sys/", "net/", "netinet/", "arpa/", "linux/", "bits/")
SOURCES = {".h", ".cpp", ".c", ".cu", ".cuh"}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def is_standard(header):
    """Whether the compiler or the operating system brings it."""
    if header.endswith(".h"):
        return header[:-2] in STANDARD_C or header.startswith(SYSTEM_FOLDERS)
    return re.fullmatch(r"[a-z_]+", header) is not None


def library_of(header):
    for name, (pattern, rooms) in LIBRARIES.items():
        if re.match(pattern, header):
            return name, rooms
    return None, set()


def names(rooms):
    return ", ".join(sorted(rooms)) if rooms else "nothing of mala/"


class Place:
    """Where a file stands: its top folder, and the room whose rules it follows."""

    def __init__(self, root, path):
        self.path = path.as_posix()
        # The header of a .cu file is what callers without CUDA see of it.
        self.is_launcher = path.suffix == ".h" and (root / path).with_suffix(".cu").exists()
        self.suffix = path.suffix
        self.top = path.parts[0]
        inner = path.parts[1] if len(path.parts) > 2 else None
        # Tests of a room see what the room sees; what tests share stays below torch.
        self.room = "kernels" if (self.top, inner) == ("tests", "support") else inner
        self.is_free = self.top in ("bench", "examples")  # programs use whatever they need
        self.is_test = self.top in ("tests", "bench")

    def rooms(self):
        if self.is_free or self.room not in MAY_USE:
            return ROOMS
        rooms = MAY_USE[self.room] | {self.room}
        # Whatever stands on the kernels may be compared with their definition.
        return rooms | {"kernels"} if self.is_test and self.room in ABOVE_KERNELS else rooms

    def says_cuda(self):
        return "cuda" in self.path or self.suffix in (".cu", ".cuh")


def check_own(place, header):
    """What is wrong with including mala/..., or None."""
    parts = header.split("/")
    room = parts[1] if len(parts) > 2 else None
    if room not in ROOMS:
        return f"{header} is in no room of mala/; the rooms are {names(ROOMS)}"
    if room not in place.rooms():
        allowed = names(MAY_USE[place.room])
        return f"{header} is of mala/{room}, {place.top}/{place.room} may use {allowed}"
    inside_kernels = place.path.startswith("mala/kernels/")
    if header.startswith("mala/kernels/reference/"):
        if not (place.is_test or place.path.startswith("mala/kernels/reference/")):
            return f"{header} is the definition, only tests/ and bench/ may use it"
    elif room == "kernels" and header not in PUBLIC_KERNELS:
        if not (place.is_test or inside_kernels):
            allowed = ", ".join(sorted(PUBLIC_KERNELS))
            return f"{header} is private to mala/kernels, others may use {allowed}"
    return None


def check_cuda(place, header):
    if place.path.startswith("mala/kernels/"):
        if not place.path.startswith("mala/kernels/cuda/"):
            return f"{header} is of CUDA, within mala/kernels only cuda/ may use it"
        if place.is_launcher:
            return f"{header} is of CUDA, launchers (.h) go without it; include it in the .cu"
        return None
    if not place.says_cuda():
        return f"{header} is of CUDA, outside mala/kernels/cuda only files named cuda may use it"
    return None


def check_library(place, header):
    """What is wrong with including somebody else's header, or None."""
    name, rooms = library_of(header)
    if name is None:
        return (
            f"{header} is of no known library; write mala/... from the root, or add the library to"
            " tools/check_layers.py and docs/architecture.md"
        )
    if place.is_free or (place.is_test and name in ("GoogleTest", "OpenMP")):
        return None
    if place.room in ROOMS and place.room not in rooms:
        where = names({f"mala/{room}" for room in rooms}) if rooms else "tests/ and bench/"
        return f"{header} is of {name}, which only {where} may use"
    return check_cuda(place, header) if name == "CUDA" else None


def check_include(place, header):
    top = header.split("/")[0]
    if top == "mala" and "/" in header:
        return check_own(place, header)
    if top in ("tests", "bench") and "/" in header:
        if place.is_test:
            return None
        return f"{header} is of {top}/, which only tests/ and bench/ may use"
    return None if is_standard(header) else check_library(place, header)


def check_first_line(lines):
    first = lines[0] if lines else ""
    if not re.match(r"(//|/\*) ?[A-Za-z`]", first):
        return f"begins with {first[:40]!r}, needs a comment: one sentence on what is in the file"
    block = []
    for line in lines:
        if not line.lstrip().startswith(("//", "/*", "*")):
            break
        block.append(line)
    if not re.search(r"[.:]( |$|\*/)", " ".join(block) + " "):
        return "the first comment is not a sentence: it has no full stop"
    return None


def check_source(root, path):
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    place = Place(root, path)
    problem = check_first_line(lines)
    if problem:
        yield f"{path}:1: {problem}"
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        problem = include and check_include(place, include.group(2))
        if problem:
            yield f"{path}:{number}: {problem}"


def check_python(root, path):
    """The Python package stands on torch, timm, safetensors and the built library alone."""
    for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module]
        else:
            continue
        for module in (name.split(".")[0] for name in modules):
            if module not in PYTHON_MAY_IMPORT and module not in sys.stdlib_module_names:
                allowed = ", ".join(sorted(PYTHON_MAY_IMPORT))
                yield f"{path}:{node.lineno}: imports {module}, python/ may use {allowed}"


def files(root, *tops):
    for top in tops:
        for path in sorted((root / top).rglob("*")):
            if path.is_file():
                yield path.relative_to(root)


def problems(root):
    """All that is wrong in the tree, one line each."""
    for path in files(root, "mala", "tests", "bench", "examples"):
        if path.suffix in SOURCES:
            yield from check_source(root, path)
    for path in files(root, "python/mala"):
        if path.suffix == ".py":
            yield from check_python(root, path)


def header_of(root, path):
    """The first include from the source's own folder: the header that it implements."""
    for line in (root / path).read_text(encoding="utf-8").splitlines():
        include = INCLUDE.match(line)
        if include and Path(include.group(2)).parent == path.parent:
            return Path(include.group(2)).stem
    return None


def untested(root):
    """Sources below mala/ with no test named after them or after their header."""
    tested = {}
    for path in files(root, "tests"):
        name = re.fullmatch(r"test_(\w+)|(\w+)_test", path.stem)
        if len(path.parts) > 2 and name:
            tested.setdefault(path.parts[1], set()).add(name.group(1) or name.group(2))
    for path in files(root, "mala"):
        if path.suffix in (".cpp", ".cu") and len(path.parts) > 2:
            known = tested.get(path.parts[1], set())
            if path.stem not in known and header_of(root, path) not in known:
                yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--tests", action="store_true", help="list sources without a test")
    arguments = parser.parse_args()
    if arguments.tests:
        for path in untested(arguments.root):
            print(f"{path}: no test is named after it or its header")
        return 0
    found = list(problems(arguments.root))
    print("\n".join(found) if found else "check_layers: every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
