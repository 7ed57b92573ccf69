#!/usr/bin/env python3
"""Finds machine code for Hopper that touches registers which a product in flight still uses.

A product of a warpgroup (HGMMA) goes on while later instructions run, until a WARPGROUP.DEPBAR
waits for its group. Until then nobody may write the registers of its left side, nor read or write
its sums. ptxas looks after sums, but says nothing of a loop that comes back to the same left side
before its wait, and an emulator of the source sees no registers. Follows all paths of each kernel
with products, and fails where one touches them too early.

    tools/check_products.py mala_kernels.dir/cuda/*.cu.o | c++filt

Takes cubins, objects and programs, which cuobjdump reads, and what that prints (.sass). Compile
them as a release is: with -Ofc=max (MALA_CUDA_QUICKLY) every product is waited for at once.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
SHOWN = 8  # of what is wrong in one kernel

LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[0-9T])\s+)?([A-Z][\w.]*)\s*([^;]*);")
PRODUCT = re.compile(r"[A-Z]GMMA\.64x(\d+)x\d+(\.F16\b)?")
REGISTER = re.compile(r"(?<![A-Z])R(\d+)(\.64)?")
LEFT_REGISTERS = 4  # of 16 rows of a warp, in every type
MOST_GROUPS = 8     # more than a wait can leave in flight

# How many registers the destination has, other operands and the last of them; addresses say their
# own. The first pattern that fits the whole name counts; without one it is one of each, which would
# be too few for a wide instruction that is not here. HMMA is said to read more than it does.
WIDTHS = [
    (r"[A-Z]MMA\..*", 4, 4, 4),
    (r"(LD|ST)SM.*\.4", 4, 1, 4),
    (r"(LD|ST)SM.*\.2", 2, 1, 2),
    (r".*\.128(\..*)?", 4, 4, 4),
    (r".*\.64(\..*)?", 2, 2, 2),
    (r"IMAD\.WIDE.*", 2, 1, 2),
    (r"IMAD\.HI.*", 1, 1, 2),
    (r"D(ADD|MUL|FMA|MNMX|SETP).*|FRND\.F64.*|F2I\.[US]64\.F64.*|I2F\.F64\.[US]64.*", 2, 2, 2),
    (r"CS2R|LEPC|SYNCS\.ARRIVE.*|F2F\.F64\..*|F2I\.[US]64.*|I2F\.F64.*", 2, 1, 1),
    (r"F2F\..*\.F64.*|F2I\..*F64.*|I2F\.[US]64.*", 1, 2, 2),
]
# What begins with an operand that is no destination.
WRITES_NONE = re.compile(r"(ST|RED|BAR|BRA|CALL|RET|WARPSYNC|NANOSLEEP|FCHK|\w*SETP)")


class UnclearError(Exception):
    """Code that this does not know how to follow."""


def registers(operand, count=1):
    """A bit for each register of an operand that has so many, or of an address."""
    bits = 0
    for first, is_long in REGISTER.findall(operand):
        width = 2 if is_long else 1 if "[" in operand else count
        bits |= ((1 << width) - 1) << int(first)
    return bits


def names(bits):
    found = [f"R{i}" for i in range(bits.bit_length()) if bits >> i & 1]
    return ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")


class Instruction:
    """What it is called, which registers it reads and writes, and where it may lead."""

    def __init__(self, address, guard, name, text):
        if guard == "!PT":
            name, text = "NOP", ""
        self.address, self.name, self.kind = int(address, 16), name, name.split(".")[0]
        self.operands = [operand.strip() for operand in text.split(",")]
        self.always = guard in (None, "PT")
        last = re.fullmatch(r"0x[0-9a-f]+", self.operands[-1])
        self.last_number = int(last.group(), 16) if last else None
        self.reads = self.writes = self.left = self.sums = 0
        product = PRODUCT.match(name)
        self.is_product, self.is_wait = bool(product), name.startswith("WARPGROUP.DEPBAR")
        self.commits = self.always and self.is_product and "gsb0" in self.operands
        if product:
            count = int(product.group(1)) // (4 if product.group(2) else 2)
            self.left = registers(self.operands[1], LEFT_REGISTERS)
            for operand in self.operands[:1] + self.operands[2:]:
                self.sums |= registers(operand, count)
        else:
            self.find_registers()

    def __str__(self):
        return f"{self.address:#x} {self.name} {', '.join(self.operands)}".strip()

    def find_registers(self):
        fits = (widths for pattern, *widths in WIDTHS if re.fullmatch(pattern, self.name))
        written, others, last = next(fits, (1, 1, 1))
        operands = [one for one in self.operands if not re.fullmatch(r"!?U?P[0-9T]", one)]
        if operands and re.fullmatch(r"R\d+", operands[0]) and not WRITES_NONE.match(self.name):
            self.writes = registers(operands.pop(0), written)
        for i, operand in enumerate(operands, 1):
            self.reads |= registers(operand, last if i == len(operands) else others)


class Kernel:
    """Instructions, and which products are in flight before each of them.

    Those are kept by their place, with how many groups have been closed since, their own included;
    where paths meet, with the fewest that any of them has closed.
    """

    def __init__(self, name, instructions):
        self.name, self.code = name, instructions
        self.places = {one.address: i for i, one in enumerate(instructions)}
        # Where threads go on that have met, by the register that counts them.
        self.meetings = {
            (one.operands[0], one.last_number) for one in instructions if one.kind == "BSSY"
        }

    def next_places(self, i):
        one, on = self.code[i], [i + 1] if i + 1 < len(self.code) else []
        to = self.places.get(one.last_number)
        if one.kind in ("EXIT", "RET", "KILL"):
            return [] if one.always else on
        if one.kind == "BSYNC":
            behind = self.code[i + 1].address if on else None
            if (one.operands[0], behind) in self.meetings:
                return on
            raise UnclearError(f"{one}, which leads elsewhere than behind itself")
        if one.kind == "CALL":  # it may do as little as return at once, or as much as is there
            return on if to is None else [*on, to]
        if one.kind == "BSSY":  # tells where threads go on that have met at a BSYNC
            meeting = self.code[to - 1] if to else one
            if (meeting.kind, meeting.operands) == ("BSYNC", one.operands[:1]):
                return on
        elif one.kind == "BRA" or one.name.startswith("WARPSYNC.COLLECTIVE"):
            leaves = one.kind == "BRA" and one.always and len(one.operands) == 1
            if to is not None:
                return [to] if leaves else [*on, to]
        elif one.kind not in ("BRX", "BRXU", "JMP", "JMX", "JMXU"):
            return on
        raise UnclearError(f"{one}")

    def after(self, flight, i):
        """The products in flight behind an instruction, of those before it."""
        one = self.code[i]
        if "GMMA" in one.name and not one.is_product:
            raise UnclearError(f"{one}, a product of another kind")
        if flight and one.kind == "CALL" and one.last_number not in self.places:
            raise UnclearError(f"{one}, while products are in flight")
        if one.is_product:
            flight = {**flight, i: 0}
        if one.commits:
            return {j: min(groups + 1, MOST_GROUPS) for j, groups in flight.items()}
        if one.is_wait and one.always:
            return {j: groups for j, groups in flight.items() if groups <= one.last_number}
        return flight

    def follow(self):
        """The products in flight before each instruction that a path comes to."""
        before, ahead = {0: {}}, [0]
        while ahead:
            i = ahead.pop()
            flight = self.after(before[i], i)
            for j in self.next_places(i):
                merged = dict(before.get(j, {}))
                for product, groups in flight.items():
                    merged[product] = min(groups, merged.get(product, groups))
                if merged != before.get(j):
                    before[j] = merged
                    ahead.append(j)
        return before

    def too_early(self):
        """What touches registers that are still in use, one line each."""
        before = self.follow()
        of_callers = {j for i in before if self.code[i].kind == "CALL" for j in before[i]}
        for i, flight in sorted(before.items()):
            one = self.code[i]
            if one.kind == "RET" and flight.keys() - of_callers:
                raise UnclearError(f"{one}, which leaves products in flight")
            for other in (self.code[j] for j in sorted(flight)):
                partly = one.sums & other.sums if one.sums != other.sums else 0
                for words, bits in (
                    ("overwrites the left side", (one.writes | one.sums) & other.left),
                    ("overwrites sums", one.writes & other.sums | partly),
                    ("reads sums", (one.reads | one.left) & other.sums),
                ):
                    if bits:
                        yield f"{one}: {words}, {names(bits)}, of {other}"

    def problems(self):
        try:
            found = list(self.too_early())
        except UnclearError as unclear:
            found = [f"cannot follow {unclear}"]
        more = len(found) - SHOWN
        return found[:SHOWN] + [f"and {more} more"] * (more > 0)


def kernels(lines):
    """Those with products, from what cuobjdump -sass prints."""
    name, code = "", []
    for line in [*lines, "Function : "]:
        if "Function :" in line:
            if any("GMMA" in words[2] for words in code):
                yield Kernel(name, [Instruction(*words) for words in code])
            name, code = line.split(":", 1)[1].strip(), []
        elif found := LINE.match(line):
            code.append(found.groups())


def find_cuobjdump():
    """On PATH, in the CUDA toolkit or in triton's package; None without them."""
    root = Path(__file__).resolve().parent.parent
    packages = root.glob(".venv/lib/*/site-packages/triton/backends/nvidia/bin")
    for folder in (None, "/usr/local/cuda/bin", *packages):
        if found := shutil.which("cuobjdump", path=folder):
            return found
    return None


def code_of(path, cuobjdump):
    """The lines of a file's code for Hopper."""
    if path.suffix == ".sass":
        return path.read_text(encoding="utf-8").splitlines()
    command = [cuobjdump, "-sass", "-arch", "sm_90a", path]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{path}: {(result.stdout + result.stderr).strip()}")
    return result.stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    files = parser.parse_args().files
    cuobjdump = find_cuobjdump()
    for path in files:
        if not path.is_file():
            parser.error(f"{path} is no file")
        if cuobjdump is None and path.suffix != ".sass":
            print("skipped: no cuobjdump found; it comes with the CUDA toolkit, put it on PATH")
            return SKIPPED
    wrong = count = empty = 0
    for path in files:
        of_file = list(kernels(code_of(path, cuobjdump)))
        if not of_file:
            print(f"{path} has no products of warpgroups; compile it for sm_90a, or leave it out")
        for kernel in of_file:
            found = kernel.problems()
            if found:
                print(f"{path}: {kernel.name}", *found, sep="\n  ")
            wrong += bool(found)
        empty, count = empty + (not of_file), count + len(of_file)
    print(f"check_products: {count or 'no'} kernels with products, {wrong or 'none'} wrong")
    return 1 if wrong or empty else 0


if __name__ == "__main__":
    sys.exit(main())
