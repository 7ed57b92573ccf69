#!/usr/bin/env python3
"""Builds the fuzzers of the file readers with clang and runs each for some seconds.

    tools/fuzz.py                       # ten seconds each
    tools/fuzz.py --seconds 600 pth     # ten minutes of one

New inputs are kept in the build folder, so that a later run goes on from there; the corpus in
tests/fuzz/corpus stays as it is. A finding is written beside them, named, and fails the run; put
it into the corpus with its mending. Where clang or libFuzzer is missing, the exit status is 77.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
KINDS = ("safetensors", "pth", "image")
FLAGS = "-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
SKIPPED = 77


def say(text):
    print(f"[fuzz] {text}", flush=True)


def find_clang():
    """A clang++ that links libFuzzer, and None and the reason where there is none."""
    clang = shutil.which("clang++")
    if clang is None:
        return None, "no clang++ found; install clang"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text(
            "#include <cstddef>\n#include <cstdint>\n"
            'extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }\n'
        )
        command = [clang, "-fsanitize=fuzzer,address", source, "-o", Path(folder) / "probe"]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None, f"{clang} has no libFuzzer; install its compiler-rt (libclang-rt-dev)"
    return clang, None


def build(clang, folder, kinds):
    """Quiet unless it fails; then the end of what was said, and False."""
    configure = [
        "cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={clang}",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1",
        f"-DCMAKE_CXX_FLAGS={FLAGS}", "-DMALA_TORCH=OFF",
        "-DMALA_CUDA=OFF", "-DMALA_STD_THREADS=ON",
    ]  # fmt: skip
    targets = [f"{kind}_fuzzer" for kind in kinds]
    for command in (configure, ["cmake", "--build", folder, "--target", *targets]):
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if result.returncode != 0:
            print(result.stdout[-4000:])
            say("the fuzzers do not build")
            return False
    return True


def fuzz(kind, folder, seconds):
    """Whether so many seconds went by without a finding."""
    found = folder / "found" / kind
    found.mkdir(parents=True, exist_ok=True)
    command = [
        folder / "bin" / f"{kind}_fuzzer", f"-max_total_time={seconds}", "-rss_limit_mb=2048",
        "-timeout=10", "-max_len=8192", "-print_final_stats=1",
        f"-artifact_prefix={found}/finding-", found, CORPUS / kind,
    ]  # fmt: skip
    environment = os.environ | {"ASAN_OPTIONS": "allocator_may_return_null=0"}
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, check=False
    )
    if result.returncode != 0:
        print(result.stderr[-6000:])
        say(f"{kind}: a finding; its input is named above and lies in {found}")
        return False
    runs = [line for line in result.stderr.splitlines() if "number_of_executed_units" in line]
    say(f"{kind}: {seconds} s without a finding, {runs[0].split()[-1] if runs else '?'} inputs")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; or all")
    parser.add_argument("--seconds", type=int, default=10, help="for each")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "fuzz")
    options = parser.parse_args()
    kinds = options.kinds or KINDS
    for kind in kinds:
        if kind not in KINDS:
            parser.error(f"no fuzzer is called {kind}; there are {', '.join(KINDS)}")
    if options.seconds < 1:
        parser.error(f"{options.seconds} seconds; at least 1 is needed")
    clang, reason = find_clang()
    if clang is None:
        say(f"skipped: {reason}")
        return SKIPPED
    if not build(clang, options.build, kinds):
        return 1
    return 0 if all([fuzz(kind, options.build, options.seconds) for kind in kinds]) else 1


if __name__ == "__main__":
    sys.exit(main())
