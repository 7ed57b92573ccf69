#!/usr/bin/env python3
"""Turns preprocessed CUDA C++ into plain C++ that calls the emulator.

    rewrite.py FROM TO

    asm volatile("PTX" : ...);             becomes calls of tests/emulator/ptx.h
    extern __shared__ T name[];            a pointer to the block's memory
    __shared__ T name[8];                  a reference into it
    kernel<<<grid, block>>>(arguments)     with_grid(kernel, grid, block)(arguments)

Lines stay where they are, so that messages name those of the kernel's source.
"""

import re
import sys
from pathlib import Path

from instructions import CALL
from ptx import Asm
from scan import end_of_brackets

# The word that <cuda_runtime.h> makes of __shared__, inline assembly, or the sign of a launch.
INTERESTING = re.compile(r"\b__mala_shared__\b|\basm\b(?:\s+volatile)?\s*(?=\()|<<<")
MARKER = re.compile(r'^# (\d+) "([^"]*)"', re.MULTILINE)
NOINLINE = re.compile(r"(?<![(,])(\s)__noinline__\b")  # not within __attribute__((...))
KERNEL = re.compile(r"[\w:]+(?:<[^;<>]*>)?\s*$")
DECLARATION = re.compile(
    r"\s*(?:alignas\(\w+\)\s*)?(?P<type>[^;]*?)\s*(?P<name>\w+)(?P<size>(\[[^;]*\])*);"
)


def place_of(text: str, position: int) -> str:
    """file:line, for messages."""
    file, line, start = "?", 1, 0
    for marker in MARKER.finditer(text, 0, position):
        file, line, start = marker.group(2), int(marker.group(1)) - 1, marker.end()
    return f"{file}:{line + text.count(chr(10), start, position)}"


def shared(declaration: re.Match, is_array: bool) -> str:
    kind, name, size = declaration.group("type", "name", "size")
    if is_array:
        return f"{kind}* const {name} = static_cast<{kind}*>({CALL}shared_array());"
    own = f"type_of_{name}"
    return (
        f"typedef {kind} {own}{size}; {own}& {name} = *static_cast<{own}*>({CALL}shared_variable("
        f'sizeof({own}), alignof({own}), "{name}", __PRETTY_FUNCTION__));'
    )


def rewrite(text: str) -> str:
    text = NOINLINE.sub(r"\1", text)
    out, done = [], 0
    for found in INTERESTING.finditer(text):
        start = found.start()
        if start < done:
            continue
        if found.group() == "<<<":
            start = KERNEL.search(text, done, start).start()
            end = text.index(">>>", start)
            grid = text[found.end() : end]
            new, end = f"{CALL}with_grid({text[start : found.start()]}, {grid})", end + 3
        elif found.group().startswith("asm"):
            end = end_of_brackets(text, found.end())
            new = Asm(text[found.end() + 1 : end - 1], place_of(text, start)).code()
        else:
            before = re.search(r"\bextern\s+$", text[done:start])
            declaration = DECLARATION.match(text, found.end())
            new, end = shared(declaration, before is not None), declaration.end()
            start = done + before.start() if before else start
        out += [text[done:start], new, "\n" * text.count("\n", start, end)]
        done = end
    return "".join(out) + text[done:]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(rewrite(Path(sys.argv[1]).read_text()))
