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
INSTANCE = re.compile(r"^template void (\w+)\(([^;]*?Call<(\w+)>[^;]*)\);", re.MULTILINE)


def specialisation(instance: re.Match) -> str:
    name, parameters, kind = instance.groups()
    message = f'"{name} of {kind} is emulated with MALA_EMULATE_ALL_TYPES=ON alone"'
    return f"template <>\nvoid {name}<{kind}>({parameters}) {{\n  emulator::fail({message});\n}}\n"


def main() -> None:
    target, *sources = map(Path, sys.argv[1:])
    found = [match for source in sources for match in INSTANCE.finditer(source.read_text())]
    body = "".join(map(specialisation, found))
    target.write_text(HEAD + body + "\n}  // namespace mala::gpu\n")


if __name__ == "__main__":
    main()
