"""tools/check_products.py on short machine code: what products in flight let others touch."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "check_products.py"
# Sums in R24 to R55, the left side in R56 to R59, at the end of a group and within one.
PRODUCT = "HGMMA.64x64x16.F32.BF16 R24, R56, gdesc[UR4].tnspB, R24, gsb0"
FIRST = "HGMMA.64x64x16.F32.BF16 R24, R56, gdesc[UR4].tnspB, RZ, !UPT"
OTHER = "HGMMA.64x64x16.F32.BF16 R24, R60, gdesc[UR4].tnspB, R24, gsb0"  # its left side: R60 to R63
EMPTY = "HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0"  # closes a group
WAIT, WAIT_BUT_ONE = "WARPGROUP.DEPBAR.LE gsb0, 0x0", "WARPGROUP.DEPBAR.LE gsb0, 0x1"


def sass(*instructions, name="kernel"):
    """As cuobjdump prints it; the first instruction is at 0x0, the next at 0x10."""
    lines = ["", "\tcode for sm_90", f"\t\tFunction : {name}"]
    for i, text in enumerate((*instructions, "EXIT", "BRA 0x0")):
        guard, text = text.split(" ", 1) if text.startswith("@") else ("", text)
        lines.append(f"        /*{16 * i:04x}*/ {guard:>13} {text} ;   /* 0x0000000000007918 */")
        lines.append(" " * 60 + "/* 0x000fc00000000000 */")
    return "\n".join(lines) + "\n"


class CheckProducts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_check(self, *files, script=SCRIPT):
        return subprocess.run(
            [sys.executable, str(script), *map(str, files)],
            env={"PATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def check(self, *instructions):
        file = self.folder / "code.sass"
        file.write_text(sass(*instructions))
        result = self.run_check(file)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout

    def assert_passes(self, *instructions):
        with self.subTest(instructions=instructions):
            status, text = self.check(*instructions)
            self.assertEqual(status, 0, text)
            self.assertEqual(text, "check_products: 1 kernels with products, none wrong\n")

    def assert_refused(self, words, *instructions):
        """With these words, and nothing else is wrong."""
        with self.subTest(instructions=instructions):
            status, text = self.check(*instructions)
            self.assertEqual(status, 1, text)
            lines = text.splitlines()
            self.assertEqual(len(lines), 3, text)
            self.assertTrue(lines[0].endswith("code.sass: kernel"), text)
            self.assertIn(words, lines[1])
            self.assertEqual(lines[2], "check_products: 1 kernels with products, 1 wrong")

    def test_what_was_waited_for_may_be_touched(self):
        self.assert_passes(PRODUCT, WAIT, "MOV R56, R24", "FADD R24, R25, R26")

    def test_left_sides_stay_until_the_wait(self):
        told = f"0x10 MOV R57, RZ: overwrites the left side, R57, of 0x0 {PRODUCT}"
        self.assert_refused(told, PRODUCT, "MOV R57, RZ", WAIT)
        self.assert_refused("R57", FIRST, PRODUCT.replace("R56", "R60"), "MOV R57, RZ", WAIT)
        self.assert_passes(PRODUCT, "MOV R60, R57", "STS.128 [R56], R56", WAIT)
        self.assert_passes(PRODUCT.replace("R56, ", ""), "MOV R57, RZ", WAIT)

    def test_sums_belong_to_products_until_the_wait(self):
        told = f"0x10 FADD R0, R1, R24: reads sums, R24, of 0x0 {PRODUCT}"
        self.assert_refused(told, PRODUCT, "FADD R0, R1, R24", WAIT)
        self.assert_refused("overwrites sums, R55,", PRODUCT, "MOV R55, RZ", WAIT)
        self.assert_refused("reads sums, R24, R25, R26, R27,", PRODUCT, "STS.128 [R0], R24", WAIT)
        self.assert_passes(PRODUCT, "FADD R0, R1, R23", "MOV R23, RZ", WAIT)

    def test_sums_of_half_the_width(self):
        product = "HGMMA.64x64x16.F16 R24, R56, gdesc[UR4], R24, gsb0"
        self.assert_refused("R39", product, "MOV R39, RZ", WAIT)
        self.assert_passes(product, "MOV R40, RZ", WAIT)

    def test_products_of_the_same_sums_follow_each_other(self):
        self.assert_passes(FIRST, PRODUCT, OTHER, WAIT)

    def test_products_take_nothing_from_each_other(self):
        inside = "HGMMA.64x64x16.F32.BF16 R64, R52, gdesc[UR4], R64, gsb0"
        self.assert_refused("reads sums, R52, R53, R54, R55, of 0x0", PRODUCT, inside, WAIT)
        over = "HGMMA.64x8x16.F32.BF16 R56, gdesc[UR4], R56, gsb0"
        self.assert_refused("overwrites the left side, R56, R57, R58, R59,", PRODUCT, over, WAIT)
        partly = "HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], R24, gsb0"
        self.assert_refused("overwrites sums, R24, R25, R26, R27,", PRODUCT, partly, WAIT)

    def test_the_last_group_may_be_pending(self):
        self.assert_passes(PRODUCT, OTHER, WAIT_BUT_ONE, "MOV R56, RZ", WAIT)
        self.assert_refused("R60", PRODUCT, OTHER, WAIT_BUT_ONE, "MOV R60, RZ", WAIT)
        self.assert_refused("R24", PRODUCT, OTHER, WAIT_BUT_ONE, "MOV R0, R24", WAIT)
        self.assert_passes(PRODUCT, EMPTY, WAIT_BUT_ONE, "MOV R56, R24")
        self.assert_refused("R56", PRODUCT, f"@P0 {EMPTY}", WAIT_BUT_ONE, "MOV R56, RZ")
        closes = (EMPTY, WAIT_BUT_ONE, "MOV R56, RZ")  # on one of two paths
        self.assert_refused("R56", PRODUCT, "@P0 BRA 0x30", *closes)
        self.assert_refused("R56", PRODUCT, "@P0 BRA 0x30", "BRA 0x40", *closes)

    def test_a_product_outside_of_a_group_is_not_waited_for(self):
        self.assert_refused("R56", FIRST, WAIT, "MOV R56, RZ")

    def test_a_loop_comes_back_to_its_left_side(self):
        back = "@P0 BRA 0x0"
        told = "0x0 MOV R56, R0: overwrites the left side"
        self.assert_refused(told, "MOV R56, R0", PRODUCT, back, WAIT)
        self.assert_refused(told, "MOV R56, R0", PRODUCT, WAIT_BUT_ONE, back, WAIT)
        self.assert_passes("MOV R56, R0", PRODUCT, WAIT, back)

    def test_a_loop_over_two_left_sides(self):
        def turns(wait):
            return ("MOV R56, R0", PRODUCT, wait, "MOV R60, R0", OTHER, wait, "@P0 BRA 0x0", WAIT)

        self.assert_passes(*turns(WAIT_BUT_ONE))
        status, text = self.check(*turns("WARPGROUP.DEPBAR.LE gsb0, 0x2"))
        self.assertEqual(status, 1)
        self.assertIn("0x0 MOV R56, R0: overwrites the left side", text)
        self.assertIn("0x30 MOV R60, R0: overwrites the left side", text)

    def test_every_path_has_to_wait(self):
        self.assert_refused("0x30 MOV R56", PRODUCT, "@P0 BRA 0x30", WAIT, "MOV R56, RZ")
        self.assert_refused("0x30 MOV R56", PRODUCT, "@!P0 BRA P1, 0x30", WAIT, "MOV R56, RZ")
        self.assert_refused("0x20 MOV R56", PRODUCT, f"@P0 {WAIT}", "MOV R56, RZ")
        self.assert_refused("0x20 MOV R56", PRODUCT, "BRA.DIV UR4, 0x30", "MOV R56, RZ", WAIT)
        self.assert_passes(PRODUCT, "BRA 0x30", "MOV R56, RZ", WAIT)
        self.assert_passes(PRODUCT, "EXIT", "MOV R56, RZ")
        self.assert_refused("0x20 MOV R56", PRODUCT, "@P0 EXIT", "MOV R56, RZ")

    def test_what_may_not_happen_counts_and_what_never_does_not(self):
        self.assert_refused("R56", PRODUCT, "@P0 MOV R56, RZ", WAIT)
        self.assert_passes(PRODUCT, "@!PT LDS R56, [RZ]", WAIT)
        self.assert_refused("R56", f"@P0 {PRODUCT}", "MOV R56, RZ", WAIT)

    def test_how_much_instructions_write(self):
        product = "HGMMA.64x8x16.F32.BF16 R80, R56, gdesc[UR4], R80, gsb0"
        for text in (  # only the last register that each writes is of the left side
            "LDS.128 R53, [R0]", "LDG.E.64.CONSTANT R55, desc[UR4][R2.64]", "CS2R R55, SRZ",
            "LDSM.16.M88.4 R53, [R0]", "LDSM.16.MT88.2 R55, [R0]", "IMAD.WIDE.U32 R55, R0, R2, R4",
            "HMMA.1688.F32.TF32 R53, R0, R4, R8", "DADD R55, R0, R2", "F2F.F64.F32 R55, R0",
            "SHFL.BFLY PT, R56, R0, 0x1, 0x1f", "LOP3.LUT P0, R56, R0, 0xff, RZ, 0xc0, !PT",
            "IADD3 R56, P0, R0, R1, RZ", "ATOM.E.ADD.STRONG.GPU PT, R56, desc[UR4][R2.64], R0",
        ):  # fmt: skip
            told = f"0x10 {text}: overwrites the left side, R56, of"
            self.assert_refused(told, product, text, WAIT)

    def test_what_instructions_do_not_write(self):
        for text in (
            "STS.64 [R56], R58", "STG.E.128 desc[UR4][R56.64], R56", "LDS.64 R60, [R56]",
            "ISETP.GE.AND P0, PT, R56, R57, PT", "HSETP2.BF16_V2.GT.AND P1, P2, R56, RZ.H0_H0, PT",
            "LDGSTS.E.BYPASS.128 [R56], [R58.64]", "BAR.SYNC.DEFER_BLOCKING R56, 0x80",
            "R2UR UR4, R56", "MOV R0, UR56", "@P0 LDG.E R55, desc[UR56][R58.64]",
            "SHF.L.U64.HI R55, R0, 0x3, R1", "F2F.F32.F64 R55, R0",
        ):  # fmt: skip
            self.assert_passes(PRODUCT.replace("R24", "R80"), text, WAIT)

    def test_how_much_instructions_read(self):
        product = "HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], R24, gsb0"  # sums in R24 to R27
        for text in (
            "LDG.E R0, desc[UR4][R23.64]", "STG.E.64 desc[UR4][R2.64], R23", "DADD R0, R2, R23",
            "IMAD.WIDE R0, R2, R3, R23", "IMAD.HI.U32 R0, R2, R3, R23", "F2F.F32.F64 R0, R23",
            "STSM.16.M88.4 [R0], R21", "HMMA.1688.F32.TF32 R0, R0, R4, R21", "I2F.U64.RP R0, R23",
        ):  # fmt: skip
            self.assert_refused(f"0x10 {text}: reads sums, R24,", product, text, WAIT)
        for text in ("LDS.128 R0, [R23]", "STG.E.64 desc[UR4][R22.64], R22", "MOV R0, R23.reuse"):
            self.assert_passes(product, text, WAIT)

    def test_what_a_call_does(self):
        called = ("EXIT", "MOV R56, RZ", "RET.REL.NODEC R2 0x0")
        self.assert_refused("0x40 MOV R56", PRODUCT, "CALL.REL.NOINC 0x40", WAIT, *called)
        self.assert_passes(PRODUCT, WAIT, "CALL.REL.NOINC 0x40", *called)
        waits = ("EXIT", WAIT, "RET.REL.NODEC R2 0x0")  # which is not followed back
        self.assert_refused("0x20 MOV R56", PRODUCT, "CALL.REL.NOINC 0x40", "MOV R56, RZ", *waits)

    def test_what_cannot_be_followed_is_told(self):
        self.assert_refused("cannot follow 0x10 BRX R2 -0x20", PRODUCT, "BRX R2 -0x20")
        self.assert_refused("cannot follow 0x10 BRA 0x1000", PRODUCT, "BRA 0x1000")
        self.assert_refused("cannot follow 0x0 BSSY B0, 0x20", "BSSY B0, 0x20", PRODUCT, WAIT)
        self.assert_passes("BSSY B0, 0x20", "BSYNC B0", PRODUCT, WAIT)
        other = ("BSSY B0, 0x30", "@P0 BRA 0x20", "BSYNC B0", "BSYNC B0", PRODUCT, WAIT)
        self.assert_refused("cannot follow 0x30 BSYNC B0, which leads elsewhere", *other)
        self.assert_refused("while products are in flight", PRODUCT, "CALL.ABS.NOINC 0x1000", WAIT)
        self.assert_refused("another kind", "HGMMA.SP.64x64x32.F32.BF16 R24, gdesc[UR4], R24")
        returns = ("CALL.REL.NOINC 0x20", "EXIT", PRODUCT, "RET.REL.NODEC R2 0x0")
        self.assert_refused("leaves products in flight", *returns)

    def test_long_lists_are_cut(self):
        status, text = self.check(PRODUCT, *["MOV R56, RZ"] * 11, WAIT)
        self.assertEqual(status, 1)
        self.assertEqual(text.count("MOV R56"), 8)
        self.assertIn("  and 3 more\n", text)

    def test_each_kernel_is_one_of_its_own(self):
        bad = sass(PRODUCT, "MOV R56, RZ", name="bad")
        plain = sass("MOV R56, RZ", name="plain")
        file = self.folder / "code.sass"
        file.write_text(sass(PRODUCT, name="good") + plain + bad + sass(PRODUCT, WAIT))
        result = self.run_check(file, file)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{file}: bad\n", result.stdout)
        self.assertNotIn("good", result.stdout)
        self.assertIn("check_products: 6 kernels with products, 2 wrong\n", result.stdout)

    def test_code_without_products_shows_nothing(self):
        status, text = self.check("MOV R56, RZ")
        self.assertEqual(status, 1)
        self.assertIn("code.sass has no products of warpgroups; compile it for sm_90a", text)
        self.assertIn("check_products: no kernels with products, none wrong\n", text)

    def test_files_that_are_not_there(self):
        result = self.run_check(self.folder / "none.o")
        self.assertEqual(result.returncode, 2)
        self.assertIn("none.o is no file", result.stderr)

    def write_cuobjdump(self, text):
        program = self.folder / "cuobjdump"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    def test_objects_are_disassembled(self):
        file = self.folder / "code.o"
        file.write_text(sass(PRODUCT, "MOV R56, RZ", WAIT))
        self.write_cuobjdump(f'[ "$1 $2 $3" = "-sass -arch sm_90a" ] && {shutil.which("cat")} "$4"')
        result = self.run_check(file)
        self.assertEqual(result.returncode, 1)
        self.assertIn("0x10 MOV R56, RZ: overwrites the left side", result.stdout)
        self.write_cuobjdump("echo no device code; exit 255")
        result = self.run_check(file)
        self.assertEqual(result.returncode, 1)
        self.assertIn("code.o: no device code", result.stderr)

    @unittest.skipIf(Path("/usr/local/cuda/bin/cuobjdump").exists(), "there is one")
    def test_skips_objects_where_there_is_no_cuobjdump(self):
        script = Path(shutil.copy(SCRIPT, self.folder))  # away from .venv, which may have one
        file = self.folder / "code.o"
        file.write_text("")
        result = self.run_check(file, script=script)
        self.assertEqual(result.returncode, 77)
        self.assertIn("skipped: no cuobjdump found", result.stdout)


if __name__ == "__main__":
    unittest.main()
