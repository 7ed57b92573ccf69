"""MAViT with the operator beside the published block structure, and beside models of timm."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, Optional

import torch
from torch import nn

import mala
from mala.bench.published import PublishedMavit
from mala.bench.timing import milliseconds, table

OTHERS = ("swin_tiny_patch4_window7_224", "convnext_tiny", "deit_small_patch16_224")
COMPILED = ("compile", "compile, graph")
CLOSE = 2e-2  # between two orders of summing in twelve blocks, of logits of size one


def run(arguments: Any) -> str:
    """The times of one picture size after the other."""
    device = torch.device(arguments.device)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[arguments.dtype]
    rows = []
    torch.manual_seed(0)
    ours = mala.create_model(arguments.model).eval().to(device)
    models = {arguments.model: ours, "published structure": PublishedMavit(ours)}
    for batch, height, width in arguments.sizes or [(64, 224, 224), (1, 512, 2048)]:
        images = torch.randn(batch, 3, height, width, device=device)
        ours.float()
        with torch.no_grad():
            compare(models, images[:1])
            for name, model in {**models, **_of_timm((height, width), arguments)}.items():
                title = f"{name}, {batch} x {height} x {width}"
                compiles = name in models or arguments.compile_others
                rows.append([title, *_times(title, model.to(dtype), images.to(dtype), compiles,
                                            arguments.seconds)])
    return (f"milliseconds, forward, {arguments.dtype} on {_name(device)}\n" +
            table(["", *_forms(device)], rows))


def compare(models: dict[str, nn.Module], images: torch.Tensor) -> None:
    first, second = (model(images) for model in models.values())
    error = (first - second).abs().max().item()
    if not error <= CLOSE:
        raise RuntimeError(f"the two structures differ by {error:.1e}; their times mean nothing")


def _of_timm(size: tuple[int, int], arguments: Any) -> dict[str, nn.Module]:
    if not arguments.others:
        return {}
    try:
        import timm
    except ImportError as error:
        raise SystemExit("timm's models need timm; pip install timm, or pass --no-others") from error

    models = {}
    for name in OTHERS:
        sized = {} if name.startswith("convnext") else {"img_size": size}
        models[name] = timm.create_model(name, **sized).eval().to(arguments.device)
    return models


def _times(title: str, model: nn.Module, images: torch.Tensor, compiles: bool,
           seconds: float) -> Iterator[str]:
    """Milliseconds of each form, as texts; "-" for those that are not asked for."""
    for column, form in _forms(images.device).items():
        if column in COMPILED and not compiles:
            yield "-"
            continue
        print(f"{title}: {column} ...", file=sys.stderr)  # a compiler may take minutes
        call = form(model)
        yield f"{milliseconds(lambda: call(images), images.device, seconds):.2f}"


def _forms(device: torch.device) -> dict[str, Callable]:
    """Ways to call a model; on a GPU also captured once and replayed, without the host's part."""
    compiled = lambda model: torch.compile(model, dynamic=False)
    forms = {"eager": lambda model: model, "compile": compiled}
    if device.type == "cuda":
        forms["graph"] = Replayed
        forms["compile, graph"] = lambda model: Replayed(compiled(model))
    return forms


class Replayed:
    """A model as one CUDA graph, for pictures of one size."""

    def __init__(self, model: Callable) -> None:
        self.model = model
        self.graph: Optional[torch.cuda.CUDAGraph] = None

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        if self.graph is None:
            self._capture(images)
        self.images.copy_(images)
        self.graph.replay()
        return self.logits

    def _capture(self, images: torch.Tensor) -> None:
        self.images, self.graph = images.clone(), torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # what is chosen or compiled at first calls must not be captured
                self.model(self.images)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.logits = self.model(self.images)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
