"""Models as ONNX graphs of standard operators alone."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import torch
from torch import Tensor, nn

from mala.decompose import decompositions


def export_onnx(model: nn.Module, path: Union[str, os.PathLike],
                example: Optional[Union[Tensor, Sequence[Tensor]]] = None, *,
                dynamic_batch: bool = False, opset: int = 18) -> None:
    """Writes a model that any ONNX runtime can run: the operator becomes standard ones, exactly.

    Args:
        model: in evaluation mode; its state is left as it is.
        path: of the file to write.
        example: what the model is called with; None is one picture of 224 x 224, or 32 x 32 for
            mavit_n. Its sizes are those of the graph.
        dynamic_batch: whether the first size of every input may be another.
        opset: of ONNX.

    Raises:
        ImportError: without the packages onnx and onnxscript.
        ValueError: for a model that is in training.
    """
    _check_packages()
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}; it must be a torch.nn.Module")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"{Path(path).absolute().parent} is no folder; make it first")
    if model.training:
        raise ValueError("the model is in training mode; call model.eval() first")
    inputs = _inputs(model, example, dynamic_batch)
    batch = torch.export.Dim("batch", min=1) if dynamic_batch else None
    shapes = tuple({0: batch} for _ in inputs) if dynamic_batch else None
    with torch.no_grad():
        program = torch.export.export(model, inputs, dynamic_shapes=shapes)
        table = torch.export.default_decompositions()
        table.update(decompositions())
        program = program.run_decompositions(table)
        graph = torch.onnx.export(program, dynamo=True, opset_version=opset, verbose=False)
    graph.save(os.fspath(path))


def _inputs(model: nn.Module, example: Any, dynamic_batch: bool) -> tuple[Tensor, ...]:
    if example is None:
        stride = getattr(getattr(model, "config", None), "stem_stride", 4)
        like = next(model.parameters())
        size = 32 if stride == 2 else 224
        count = 2 if dynamic_batch else 1  # a size of one would be taken for a constant
        return (torch.zeros(count, 3, size, size, device=like.device, dtype=like.dtype),)
    return (example,) if isinstance(example, Tensor) else tuple(example)


def _check_packages() -> None:
    for name in ("onnx", "onnxscript"):
        try:
            __import__(name)
        except ImportError as error:
            raise ImportError(f"export_onnx needs the package {name}; pip install {name}") from error
