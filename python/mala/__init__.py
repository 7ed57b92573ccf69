"""Magnitude-aware linear attention for PyTorch: the operator, layers and MAViT.

`mala.attention` is the operator; `mala.nn` has layers, `mala.create_model` the models. Layers and
models are imported when they are first asked for, so that `import mala` costs little beyond torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from mala import _library, _timm_hook

_library.load()

from mala._operators import (  # noqa: E402  the operators exist once the library is loaded
    AttentionState,
    attention,
    attention_chunk,
    attention_step,
)

if TYPE_CHECKING:
    from mala.distributed import sharded_attention
    from mala.models import create_model, list_models
    from mala.onnx import export_onnx

# Names that bring more than the operator: where each is, imported on first use.
_LATER = {
    "create_model": "mala.models",
    "list_models": "mala.models",
    "export_onnx": "mala.onnx",
    "sharded_attention": "mala.distributed",
}
_MODULES = ("bench", "decompose", "distributed", "models", "nn", "onnx")

__version__ = "0.1.0"
__all__ = [
    "AttentionState",
    "attention",
    "attention_chunk",
    "attention_step",
    "create_model",
    "export_onnx",
    "list_models",
    "sharded_attention",
    *_MODULES,
]

_timm_hook.install()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"mala.{name}")
    if name in _LATER:
        value = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'mala' has no attribute '{name}'; there are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
