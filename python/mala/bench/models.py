"""MAViT with the operator beside the published block structure, and beside models of timm."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import mala
from mala.bench.published import PublishedMavit
from mala.bench.timing import milliseconds, table

OTHERS = ("swin_tiny_patch4_window7_224", "convnext_tiny", "deit_small_patch16_224")
CLOSE = 2e-2  # between two orders of summing in twelve blocks, of logits of size one


def run(arguments: Any) -> str:
    """The times of one picture size after the other."""
    device = torch.device(arguments.device)
    shapes = arguments.sizes or [(64, 224, 224), (1, 512, 2048)]
    rows = []
    torch.manual_seed(0)
    ours = mala.create_model(arguments.model).eval().to(device)
    models = {arguments.model: ours, "published structure": PublishedMavit(ours)}
    for batch, height, width in shapes:
        images = torch.randn(batch, 3, height, width, device=device)
        with torch.no_grad():
            compare(models, images[:1])
            named = {**models, **_of_timm((height, width), arguments.others, device)}
            for name, model in named.items():
                rows.append([f"{name}, {batch} x {height} x {width}",
                             *(f"{_time(form(model), images, device, arguments):.1f}"
                               for form in (_eager, _compiled))])
    return f"milliseconds, forward, float32 on {device}\n" + table(["", "eager", "compile"], rows)


def compare(models: dict[str, nn.Module], images: torch.Tensor) -> None:
    first, second = (model(images) for model in models.values())
    error = (first - second).abs().max().item()
    if not error <= CLOSE:
        raise RuntimeError(f"the two structures differ by {error:.1e}; their times mean nothing")


def _of_timm(size: tuple[int, int], wanted: bool, device: torch.device) -> dict[str, nn.Module]:
    if not wanted:
        return {}
    import timm

    models = {}
    for name in OTHERS:
        sized = {} if name.startswith("convnext") else {"img_size": size}
        models[name] = timm.create_model(name, **sized).eval().to(device)
    return models


def _eager(model: nn.Module) -> Callable:
    return model


def _compiled(model: nn.Module) -> Callable:
    torch._dynamo.reset()
    return torch.compile(model, dynamic=False)


def _time(model: Callable, images: torch.Tensor, device: torch.device, arguments: Any) -> float:
    return milliseconds(lambda: model(images), device, arguments.seconds)
