"""The code of docs/files.md is the code of the tests that run it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [ROOT / "tests/io/page_test.cpp", ROOT / "tests/data/image/page_test.cpp"]


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_examples_are_compiled():
    blocks = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs/files.md").read_text(), re.S)
    assert len(blocks) == len(PROGRAMS)
    for block, program in zip(blocks, PROGRAMS):
        compiled = iter(lines_of(program.read_text()))
        code = [line for line in lines_of(block) if not line.startswith('// "')]
        for line in code:
            assert line in compiled, f"{program} lacks, at its place: {line}"
