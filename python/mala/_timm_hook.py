"""Registers our models with timm when timm is imported: it takes seconds, so we never import it."""

import importlib.util
import sys
import warnings
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any


class _AfterTimm(MetaPathFinder):
    """Lets timm be found as ever, and has its loader register our models when it is done."""

    def __init__(self) -> None:
        self._is_searching = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "timm" or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            _call_after_loading(spec.loader)
        return spec


def _call_after_loading(loader: Any) -> None:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        _register()

    loader.exec_module = exec_module


def _register() -> None:
    try:
        importlib.import_module("mala._timm_models")
    except Exception as error:  # timm must keep working, whatever its version
        warnings.warn(f"mala's models are not registered with this timm: {error}", stacklevel=2)


def install() -> None:
    if "timm" in sys.modules:
        _register()
    elif not any(isinstance(finder, _AfterTimm) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTimm())
