"""Reads one asm statement: its operands, and its PTX instruction by instruction."""

import re
import sys

from instructions import CALL, TYPES, Unknown, translate
from scan import split

# C++ types of the letters that say in which register an operand is.
LETTERS = {"r": "uint32_t", "l": "uint64_t", "f": "float", "h": "uint16_t"}
OPERAND = re.compile(r'"([^"]*)"\s*\((.*)\)$', re.DOTALL)


def statements(ptx: str) -> list[str]:
    """The instructions of a text, which may stand in braces."""
    ptx = " ".join(ptx.split())
    if ptx.startswith("{") and ptx.endswith("}"):
        ptx = ptx[1:-1]
    return [statement for statement in split(ptx, ";") if statement]


class Asm:
    """asm(text) of a place in the source; code() is C++ that does the same."""

    def __init__(self, text: str, place: str):
        self.place = place
        text = re.sub(r"(?m)^#.*$", "", text)  # markers of lines
        template, outputs, inputs, *_ = [*split(text, ":"), "", ""]
        self.lines = []
        for expression in split(outputs, ","):
            self.bind(expression, is_output=True)
        for expression in split(inputs, ","):
            self.bind(expression, is_output=False)
        for statement in statements("".join(re.findall(r'"([^"]*)"', template))):
            self.add(statement)

    def bind(self, operand: str, is_output: bool) -> None:
        """Operand number n becomes the C++ name operand_n."""
        name = f"operand_{len(self.lines)}"
        letters, expression = OPERAND.match(operand).groups()
        if is_output:
            declaration = f"auto& {name} = ({expression});"
        elif letters == "n":
            declaration = f"const auto {name} = ({expression});"
        else:
            kind = LETTERS[letters]
            declaration = f"const {kind} {name} = {CALL}as<{kind}>({expression});"
        self.lines.append(f"[[maybe_unused]] {declaration}")

    def add(self, statement: str) -> None:
        opcode, _, rest = statement.partition(" ")
        if opcode.startswith("@"):
            self.lines.append(f"if (register_{opcode[1:]})")
            return self.add(rest)
        if opcode == ".reg":
            kind, _, names = rest.partition(" ")
            for name in split(names, ","):
                self.lines.append(f"[[maybe_unused]] {TYPES[kind[1:]]} register_{name}{{}};")
            return
        try:
            self.lines.append(f"{{ {translate(opcode, split(rest, ','))} }}")
        except Unknown as unknown:
            print(f"{self.place}: warning: not emulated: {unknown}", file=sys.stderr)
            self.lines.append(f'{CALL}fail("not emulated: {statement}");')

    def code(self) -> str:
        return "do { " + " ".join(self.lines) + " } while (0)"
