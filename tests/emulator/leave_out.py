#!/usr/bin/env python3
"""Writes C++ in which what the kernels of other types instantiate fails when it is called.

    leave_out.py TO FROM.cu...

The emulator has no kernels for float16 unless asked for, since those for float32 are much like them;
code for the host asks for all types.
"""

import re
import sys
from pathlib import Path

HEAD = """// What kernels of types that are not emulated do.
#include "mala/kernels/cuda/launch.h"
#include "mala/kernels/cuda/launch_causal.h"
#include "tests/emulator/failure.h"

namespace mala::gpu {

"""
ANY_INSTANCE = re.compile(r"^template (?!<)", re.MULTILINE)
INSTANCE = re.compile(r"^template (\w+) (\w+)\(([^;]*?Call<(\w+)>[^;]*)\);", re.MULTILINE)


def specialisation(instance: re.Match) -> str:
    result, name, parameters, kind = instance.groups()
    message = f'"{name} of {kind} is emulated with MALA_EMULATE_ALL_TYPES=ON alone"'
    return f"template <>\n{result} {name}<{kind}>({parameters}) {{\n  emulator::fail({message});\n}}\n"


def instances(source: Path) -> list[re.Match]:
    """All of a file. What is left out here links only where nvcc has compiled it."""
    text = source.read_text()
    found = list(INSTANCE.finditer(text))
    if len(found) != len(ANY_INSTANCE.findall(text)):
        sys.exit(f"[leave_out] {source} has a `template` that is no instance for a Call; write it as "
                 "its neighbours are, or teach INSTANCE its form")
    return found


def main() -> None:
    target, *sources = map(Path, sys.argv[1:])
    found = [match for source in sources for match in instances(source)]
    body = "".join(map(specialisation, found))
    target.write_text(HEAD + body + "\n}  // namespace mala::gpu\n")


if __name__ == "__main__":
    main()
