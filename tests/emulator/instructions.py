"""What each PTX instruction that the kernels use is in C++: a call of tests/emulator/ptx.h."""

import re
from collections.abc import Callable

CALL = "::mala::emulator::"
WHERE = f"{CALL}Where::current()"
TYPES = {"pred": "bool", "b32": "uint32_t", "u32": "uint32_t", "u64": "uint64_t", "f32": "float"}
NARROW = {"bf16": "::mala::BFloat16", "f16": "::mala::Float16"}
SPECIAL = {
    "%%tid.x": "thread_in_block()",
    "%%cluster_ctarank": "rank_in_cluster()",
    "%%cluster_nctarank": "blocks_in_cluster()",
    "%%dynamic_smem_size": "dynamic_shared_bytes()",
}
RULES: list[tuple[re.Pattern, Callable]] = []


class Unknown(Exception):
    """An instruction or an operand that the emulator does not know."""


def instruction(pattern: str):
    """Of a function that writes C++ for the opcodes that match, from the match and the operands."""

    def add(function: Callable) -> Callable:
        RULES.append((re.compile(pattern), function))
        return function

    return add


def translate(opcode: str, operands: list[str]) -> str:
    for pattern, function in RULES:
        if match := pattern.fullmatch(opcode):
            return function(match, operands)
    raise Unknown(opcode)


def value(operand: str) -> str:
    """A register or a number."""
    if operand in SPECIAL:
        return CALL + SPECIAL[operand]
    if re.fullmatch(r"%\d+", operand):
        return f"operand_{operand[1:]}"
    if re.fullmatch(r"-?\d+", operand):
        return operand
    if re.fullmatch(r"[a-z]\w*", operand):
        return f"register_{operand}"
    raise Unknown(f"operand {operand}")


def cast(kind: str, operand: str) -> str:
    return f"{CALL}as<{kind}>({value(operand)})"


def assign(operand: str, expression: str) -> str:
    return f"{CALL}set({value(operand)}, {expression});"


def address(operand: str) -> str:
    """[register] or [register+4]."""
    terms = operand.strip("[]").split("+")
    return " + ".join(cast("uint64_t", term) for term in terms)


def several(operand: str) -> list[str]:
    """{a, b}, or one alone."""
    return [part.strip() for part in operand.strip("{}").split(",")]


def array(kind: str, name: str, operand: str) -> str:
    return f"{kind} {name}[] = {{{', '.join(cast(kind, one) for one in several(operand))}}};"


@instruction(r"griddepcontrol\.wait")
def wait_for_kernel_ahead(_, operands):
    return f"{CALL}wait_for_kernel_ahead({WHERE});"


@instruction(r"griddepcontrol\.launch_dependents")
def let_next_kernel_begin(_, operands):
    return f"{CALL}let_next_kernel_begin({WHERE});"


@instruction(r"fence\.proxy\.async.*|fence\.mbarrier_init.*|wgmma\.fence\..*")
def nothing(_, operands):
    """All threads see the same memory."""
    return ""


@instruction(r"mov\.(\w+)")
def move(match, operands):
    return assign(operands[0], cast(TYPES[match[1]], operands[1]))


@instruction(r"setp\.(eq|ne|lt|gt)\.([bfu]\d+)")
def compare(match, operands):
    sign = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">"}[match[1]]
    left, right = (cast(TYPES[match[2]], operand) for operand in operands[1:])
    return assign(operands[0], f"{left} {sign} {right}")


@instruction(r"setp\.gt\.bf16x2")
def compare_two(_, operands):
    """p|q, of the lower halves and of the upper ones."""
    results = operands[0].split("|")
    arguments = ", ".join(cast("uint32_t", operand) for operand in operands[1:])
    return " ".join(
        assign(result, f"{CALL}half_is_larger({arguments}, {half})")
        for half, result in enumerate(results)
    )


@instruction(r"add\.f32")
def add(_, operands):
    return assign(operands[0], f"{value(operands[1])} + {value(operands[2])}")


@instruction(r"(min|max)\.NaN\.f32")
def extreme(match, operands):
    two = f"{value(operands[1])}, {value(operands[2])}"
    return assign(operands[0], f"{CALL}{match[1]}_or_nan({two})")


@instruction(r"ex2\.approx\.ftz\.f32")
def power_of_two(_, operands):
    return assign(operands[0], f"{CALL}exp2_flushed({value(operands[1])})")


@instruction(r"rcp\.approx\.ftz\.f32")
def inverse(_, operands):
    return assign(operands[0], f"{CALL}inverse_flushed({value(operands[1])})")


@instruction(r"fma\.rn\.bf16x2")
def multiply_two(_, operands):
    three = ", ".join(cast("uint32_t", operand) for operand in operands[1:])
    return assign(operands[0], f"{CALL}multiply_add_two({three})")


@instruction(r"cvt\.f32\.(bf16|f16)")
def widen(match, operands):
    return assign(operands[0], f"::mala::to_float({NARROW[match[1]]}{{{value(operands[1])}}})")


@instruction(r"cvt\.rn\.(bf16|f16)x2\.f32")
def narrow(match, operands):
    two = f"{value(operands[1])}, {value(operands[2])}"
    return assign(operands[0], f"{CALL}pack_two<{NARROW[match[1]]}>({two})")


@instruction(r"cvt\.(rna?)\.tf32\.f32")
def round_to_tf32(match, operands):
    ties = "kAway" if match[1] == "rna" else "kToEven"
    return assign(operands[0], f"{CALL}to_tf32({value(operands[1])}, {CALL}Ties::{ties})")


def memory(match, operand, count):
    """A pointer named `at` to so many elements, which are one access."""
    place = "in_shared" if match["shared"] else "in_global"
    kind = TYPES[match["type"]]
    bytes_of_all = f"{count} * sizeof({kind})"
    return f"auto* at = static_cast<{kind}*>({CALL}{place}({address(operand)}, {bytes_of_all}));"


@instruction(r"ld(?P<shared>\.shared)?(\.global)?(\.v[24])?\.(?P<type>\w+)")
def load(match, operands):
    to = several(operands[0])
    loads = (assign(one, f"at[{i}]") for i, one in enumerate(to))
    return " ".join([memory(match, operands[1], len(to)), *loads])


@instruction(r"st(?P<shared>\.shared)?(\.global)?(\.v[24])?\.(?P<type>\w+)")
def store(match, operands):
    of = several(operands[1])
    stores = (f"at[{i}] = {cast(TYPES[match['type']], one)};" for i, one in enumerate(of))
    return " ".join([memory(match, operands[0], len(of)), *stores])


@instruction(r"cp\.async\.c[ag]\.shared\.global")
def copy(_, operands):
    size, *source = [value(size) for size in operands[2:]]
    arguments = [*map(address, operands[:2]), size, source[0] if source else size]
    return f"{CALL}copy_async({', '.join(arguments)});"


@instruction(r"cp\.async\.(commit|wait)_group")
def copy_group(match, operands):
    return f"{CALL}{match[1]}_copies({', '.join(map(value, operands))});"


@instruction(r"mapa\.u64")
def map_to_block(_, operands):
    return assign(operands[0], f"{CALL}in_other_block({value(operands[1])}, {value(operands[2])})")


@instruction(r"mapa\.shared::cluster\.u32")
def map_address_to_block(_, operands):
    arguments = ", ".join(cast("uint32_t", operand) for operand in operands[1:])
    return assign(operands[0], f"{CALL}address_in_other_block({arguments})")


@instruction(r"mbarrier\.init\.shared::cta\.b64")
def open_mailbox(_, operands):
    return f"{CALL}open_mailbox({address(operands[0])}, {value(operands[1])});"


@instruction(
    r"mbarrier\.arrive(\.expect_tx)?"
    r"\.(release\.cta\.shared::cta|relaxed\.cluster\.shared::cluster)\.b64"
)
def arrive_at_mailbox(match, operands):
    bytes_of_all = value(operands[2]) if match[1] else "0"
    return f"{CALL}arrive_at_mailbox({address(operands[1])}, {bytes_of_all});"


@instruction(r"mbarrier\.try_wait\.parity\.shared::cta\.b64")
def wait_for_mailbox(_, operands):
    """It always succeeds: the thread sleeps until then."""
    call = f"{CALL}wait_for_mailbox({address(operands[1])}, {value(operands[2])})"
    return assign(operands[0], f"({call}, true)")


@instruction(
    r"st\.async\.weak\.shared::cluster\.mbarrier::complete_tx::bytes(\.v[24])?\.(?P<type>\w+)"
)
def send(match, operands):
    kind, of = TYPES[match["type"]], several(operands[1])
    letter = f"const {kind} letter[] = {{{', '.join(cast(kind, one) for one in of)}}};"
    to, mailbox = address(operands[0]), address(operands[2])
    return f"{letter} {CALL}send({to}, letter, sizeof(letter), {mailbox});"


@instruction(r"selp\.u32")
def select(_, operands):
    to, yes, no, predicate = operands
    return assign(to, f"{value(predicate)} ? {cast('uint32_t', yes)} : {cast('uint32_t', no)}")


@instruction(r"barrier\.cluster\.(arrive|wait)\..*")
def cluster_barrier(match, _):
    return CALL + ("arrive_at_cluster();" if match[1] == "arrive" else "wait_for_cluster();")


@instruction(r"bar\.sync")
def barrier(_, operands):
    return f"{CALL}sync_threads({value(operands[0])}, {value(operands[1])}, false);"


@instruction(r"bar\.red\.popc\.u32")
def counting_barrier(_, operands):
    arguments = ", ".join(map(value, operands[1:]))
    return assign(operands[0], f"{CALL}sync_threads({arguments})")


@instruction(r"ldmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?\.shared\.b16")
def load_matrices(match, operands):
    to = several(operands[0])
    transposed = "true" if match[1] else "false"
    stores = (assign(one, f"matrices[{i}]") for i, one in enumerate(to))
    call = f"{CALL}load_matrices(matrices, {len(to)}, {address(operands[1])}, {transposed});"
    return f"uint32_t matrices[{len(to)}]; {call} {' '.join(stores)}"


@instruction(r"stmatrix\.sync\.aligned\.m8n8\.x[124](\.trans)?\.shared\.b16")
def store_matrices(match, operands):
    transposed = "true" if match[1] else "false"
    count = len(several(operands[1]))
    call = f"{CALL}store_matrices(matrices, {count}, {address(operands[0])}, {transposed});"
    return f"{array('uint32_t', 'matrices', operands[1])} {call}"


@instruction(r"mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32")
def multiply(_, operands):
    stores = (assign(one, f"sums[{i}]") for i, one in enumerate(several(operands[0])))
    return (
        f"{array('float', 'sums', operands[3])} {array('uint32_t', 'left', operands[1])} "
        f"{array('uint32_t', 'right', operands[2])} {CALL}multiply_tf32(sums, left, right); "
        + " ".join(stores)
    )


@instruction(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(?:16\.f32\.bf16\.bf16|8\.f32\.tf32\.tf32)"
)
def start_product(match, operands):
    sums, left, right, adds, *signs = operands
    if signs[:2] != ["1", "1"]:
        raise Unknown(f"{match[0]} with a sign")
    in_registers = left.startswith("{")
    transposed = [value(one) for one in signs[2:]]
    fields = [
        f".kind = {CALL}Operand::{'kTf32' if 'tf32' in match[0] else 'kBf16'}",
        f".columns = {match[1]}",
        ".sums = sums",
        ".left_registers = left" if in_registers else f".left = {value(left)}",
        f".right = {value(right)}",
        f".adds = {value(adds)}",
    ]
    if transposed and not in_registers:
        fields.append(f".left_transposed = {transposed[0]} != 0")
    if transposed:
        fields.append(f".right_transposed = {transposed[-1]} != 0")
    pointers = ", ".join(f"&{value(one)}" for one in several(sums))
    registers = array("uint32_t", "left", left) if in_registers else ""
    call = f"{CALL}start_product({{{', '.join(fields)}, .where = {WHERE}}});"
    return f"float* const sums[] = {{{pointers}}}; {registers} {call}"


@instruction(r"wgmma\.(commit|wait)_group\.sync\.aligned")
def product_group(match, operands):
    return f"{CALL}{match[1]}_products({', '.join(map(value, operands))});"
