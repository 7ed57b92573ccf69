"""From what a Python user writes to what torch.ops.mala.* takes, and errors of Python's kinds."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Union

import torch
from torch import Tensor

# None, "1d", (rows, columns), one such pair for each packed image, or (cos, sin) tables.
Rope = Union[None, str, tuple[int, int], Sequence[tuple[int, int]], tuple[Tensor, Tensor]]
# Offsets of packed sequences, of queries and keys alike or (those of q, those of k).
Offsets = Union[None, Tensor, tuple[Tensor, Tensor]]

_INTEGERS = (int, torch.SymInt)
_ROPE_FORMS = 'None, "1d", (rows, columns), a list of such pairs, or the tensors (cos, sin)'


def check_tensors(**tensors: Any) -> None:
    """Raises TypeError for the first that is no tensor."""
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is a {type(value).__name__}; it must be a torch.Tensor")


def rope_options(rope: Rope) -> dict[str, Any]:
    """The operator's arguments for a RoPE; positions of q and k are counted alike."""
    if rope is None:
        return {}
    if isinstance(rope, str):
        if rope == "1d":
            return {"rope": "1d"}
        raise ValueError(f"rope is '{rope}'; it must be {_ROPE_FORMS}")
    if _is_grid(rope):
        return {"rope": "2d", "grid_width": [rope[1], rope[1]]}
    parts = tuple(rope) if isinstance(rope, Sequence) else ()
    if len(parts) == 2 and all(isinstance(x, Tensor) for x in parts):
        return {"rope": "table", "rope_table": list(parts)}
    if parts and all(_is_grid(x) for x in parts):
        widths = torch.tensor([columns for _, columns in parts], device="cpu")
        return {"rope": "2d", "grid_widths": widths}
    came = f" of {', '.join(type(x).__name__ for x in parts)}" if parts else ""
    raise TypeError(f"rope is a {type(rope).__name__}{came}; it must be {_ROPE_FORMS}")


def _is_grid(value: Any) -> bool:
    return (isinstance(value, (tuple, list)) and len(value) == 2
            and isinstance(value[0], _INTEGERS) and isinstance(value[1], _INTEGERS))


def check_grid(rope: Rope, **tokens: int) -> None:
    """Raises ValueError where an image of (rows, columns) has other than rows * columns tokens."""
    if not _is_grid(rope):
        return
    rows, columns = rope
    for name, count in tokens.items():
        if rows * columns != count:
            raise ValueError(
                f"rope is an image of {rows} x {columns} but {name} has {count} tokens; "
                f"it needs {rows * columns}"
            )


def check_packed_grids(rope: Rope, cu_seqlens: Offsets) -> None:
    """The same for packed images, of one size or of one each, where offsets can be read."""
    if rope is None or isinstance(rope, str) or torch.compiler.is_compiling():
        return
    pair = offset_options(cu_seqlens)
    for side, offsets in zip("qk", pair.values()):
        if not isinstance(offsets, Tensor) or offsets.device.type != "cpu" or offsets.dim() != 1:
            continue  # the operator says what is wrong with them
        counts = offsets.diff().tolist()
        grids = [rope] * len(counts) if _is_grid(rope) else list(rope)
        for i, (grid, count) in enumerate(zip(grids, counts)):
            check_grid(grid, **{f"sequence {i} of {side}": count})


def offset_options(cu_seqlens: Offsets) -> dict[str, Any]:
    """cu_seqlens_q and cu_seqlens_k from one list for both, or from a pair."""
    if cu_seqlens is None:
        return {}
    pair = (cu_seqlens, cu_seqlens) if isinstance(cu_seqlens, Tensor) else cu_seqlens
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise TypeError(
            f"cu_seqlens is a {type(pair).__name__}; it must be a tensor of offsets, or a pair of "
            "them: those of q and of k"
        )
    return {"cu_seqlens_q": pair[0], "cu_seqlens_k": pair[1]}


def raise_naturally(error: RuntimeError) -> NoReturn:
    """The operator knows RuntimeError alone: values that do not fit become ValueError, and types
    TypeError. What is not ours, such as memory that ran out, stays what it is."""
    text = str(error).split("\n")[0]
    other_kind = re.match(r"Could not run 'mala::.*' with arguments from the '(\w+)' backend", text)
    if other_kind:
        raise TypeError(f"a tensor is of the kind {other_kind[1]}; make it dense, or pack sequences "
                        "of different lengths and pass cu_seqlens") from None
    if type(error) is not RuntimeError:
        raise error
    wrong_argument = re.match(r"mala::(\w+)\(\) Expected a value of type '(.*)' for argument "
                              r"'(\w+)' but instead found type '(.*)'", text)
    if wrong_argument:
        name, wanted, argument, came = wrong_argument.groups()
        raise TypeError(f"[mala::{name}] {argument} is a {came}; it must be a {wanted}") from None
    if not text.startswith("[mala"):
        raise error
    raise (TypeError if _is_of_type(text) else ValueError)(text) from None


def _is_of_type(text: str) -> bool:
    """Whether the operator complains of a type, and not of a size or a device beside it."""
    names_type = re.search(r"\b(is|holds) (Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool"
                           r"|Complex\w+)\b", text)
    is_elsewhere = re.search(r"is (\w+) on \S+ but \w+ is \1 on", text)
    return bool(names_type) and not is_elsewhere and "with sizes" not in text


def without_nothing(options: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out what is None: the dispatcher takes microseconds to read arguments."""
    return {name: value for name, value in options.items() if value is not None}
