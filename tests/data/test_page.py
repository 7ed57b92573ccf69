"""The code of docs/files.md and docs/data.md is the code of the tests that run it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "docs/files.md": ["tests/io/page_test.cpp", "tests/data/image/page_test.cpp"],
    "docs/data.md": ["tests/data/dataset/page_test.cpp"],
}


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("page", PROGRAMS)
def test_examples_are_compiled(page):
    blocks = re.findall(r"```cpp\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert len(blocks) == len(PROGRAMS[page])
    for block, program in zip(blocks, PROGRAMS[page]):
        compiled = iter(lines_of((ROOT / program).read_text()))
        code = [line for line in lines_of(block) if not line.startswith('// "')]
        for line in code:
            assert line in compiled, f"{program} lacks, at its place: {line}"
