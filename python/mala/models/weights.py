"""Weights from files: safetensors, and checkpoints of torch.save, of which nothing is executed."""

import argparse
import os
import pickle
from pathlib import Path
from typing import Any, Union

import torch
from torch import Tensor, nn

from mala.nn.rope import grid_angles

# Under which of these a checkpoint keeps its weights; the first that is there counts.
_HOLDERS = ("state_dict", "model", "model_state_dict", "model_ema", "state_dict_ema")
_PREFIXES = ("module.", "_orig_mod.")  # of models that were wrapped for several GPUs, or compiled
# torch.save before 1.6: a pickle of protocol 2 that begins with a long of ten bytes.
_OLD_CHECKPOINTS = (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 ",)
_NAMED = 3  # how many names an error lists of each kind


def read_weights(path: Union[str, os.PathLike]) -> dict[str, Tensor]:
    """The arrays of a file by name, on the CPU. Raises ValueError for files that are no weights."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file; give a .safetensors or .pth of weights")
    with open(path, "rb") as file:
        head = file.read(10)
    is_checkpoint = head.startswith(b"PK\x03\x04") or head in _OLD_CHECKPOINTS
    held = _read_checkpoint(path) if is_checkpoint else _read_safetensors(path)
    weights = _find_weights(held)
    if not weights:
        raise ValueError(f"{path} holds no arrays by name; its weights must be at the top or under "
                         f"{', '.join(_HOLDERS)}")
    while prefix := next((p for p in _PREFIXES if all(n.startswith(p) for n in weights)), None):
        weights = {name.removeprefix(prefix): value for name, value in weights.items()}
    return weights


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError  # only here: models without weights need none
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, ValueError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is neither safetensors nor a checkpoint of torch.save ({error}); "
                         "take the file again from where it came") from error


def _read_checkpoint(path: Path) -> Any:
    try:
        # Training arguments stand beside released weights; a Namespace only holds values.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, ValueError, TypeError,
            AttributeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"{path} is no checkpoint of weights alone ({reason}); nothing in it was "
                         "executed; save model.state_dict() and take that") from error


def _find_weights(held: Any) -> dict[str, Tensor]:
    if not isinstance(held, dict):
        return {}
    inner = next((held[name] for name in _HOLDERS if isinstance(held.get(name), dict)), held)
    return {name: value for name, value in inner.items()
            if isinstance(name, str) and isinstance(value, Tensor)}


def load_weights(model: nn.Module, path: Union[str, os.PathLike]) -> None:
    """Puts a file's weights into a model, all or none. Raises ValueError with the first names that
    are missing, unexpected or of another shape."""
    found, wanted = read_weights(path), model.state_dict()
    for name in [name for name in wanted if name.endswith("RoPE.angle")]:
        # Constants: a file may leave them out, and a model may have been made without memory.
        with torch.device("cpu"):
            angles = grid_angles(2 * wanted[name].numel()).float().repeat_interleave(2)
        given = found.setdefault(name, angles)
        if given.shape == angles.shape and not torch.allclose(
                given.float(), angles, rtol=1e-2, atol=1e-6):
            raise ValueError(f"{path}: {name} has other angles than this model turns by; "
                             "they are constants and cannot be loaded")
    for name in [name for name in wanted if name.endswith("num_batches_tracked")]:
        found.setdefault(name, torch.zeros_like(wanted[name], device="cpu"))
    difference = _describe_difference(found, wanted)
    if difference:
        raise ValueError(f"{path} does not fit the model: {difference}")
    if any(value.is_meta for value in wanted.values()):
        raise ValueError("the model has no memory for weights (device meta); call "
                         "model.to_empty(device=...) first")
    model.load_state_dict(found)


def _describe_difference(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> str:
    kinds = {
        "missing": [f"'{name}'" for name in wanted if name not in found],
        "unexpected": [f"'{name}'" for name in found if name not in wanted],
        "of another shape": [
            f"'{name}' is {tuple(found[name].shape)} and must be {tuple(value.shape)}"
            for name, value in wanted.items()
            if name in found and found[name].shape != value.shape
        ],
    }
    parts = []
    for kind, names in kinds.items():
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            parts.append(f"{len(names)} {kind}: {', '.join(names[:_NAMED])}{more}")
    return "; ".join(parts)
