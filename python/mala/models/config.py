"""MAViT's sizes by name: widths, depths and what each stage attends with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union

from mala.nn.mixers import check_mixer

# One word for all stages, "mala,mala,softmax,softmax", or a list of four.
Mixers = Union[str, Sequence[str]]


@dataclass(frozen=True)
class MavitConfig:
    """Four stages; the published sizes are in list_models()."""

    dims: tuple[int, ...]
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    mixers: tuple[str, ...] = ("mala", "mala", "softmax", "softmax")
    layer_scales: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    mlp_ratio: float = 3.5
    drop_path: float = 0.0  # of the last block in training; the others rise to it from 0
    projection: int = 2048  # width between the last stage and the head
    num_classes: int = 1000
    stem_stride: int = 4

    def __post_init__(self) -> None:
        stages = len(self.dims)
        for name in ("depths", "heads", "mixers"):
            if len(getattr(self, name)) != stages:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries and dims {stages}; "
                                 "each stage needs one of both")
        if len(self.layer_scales) < stages:
            raise ValueError(f"layer_scales has {len(self.layer_scales)} entries for {stages} stages")
        for name in ("num_classes", "projection", "stem_stride"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} is a {type(value).__name__}; it must be an int")
        for mixer in self.mixers:
            check_mixer(mixer)


_CONFIGS = {
    "mavit_n": MavitConfig((64, 96, 128, 160), (2, 3, 3, 1), (2, 3, 4, 5), ("mala",) * 4,
                           projection=512, num_classes=10, stem_stride=2),
    "mavit_t": MavitConfig((64, 128, 256, 512), (2, 2, 6, 2), (1, 2, 4, 8), drop_path=0.1),
    "mavit_s": MavitConfig((64, 128, 320, 512), (3, 5, 9, 3), (1, 2, 5, 8), drop_path=0.15),
    "mavit_b": MavitConfig((96, 192, 384, 512), (4, 6, 12, 6), (1, 2, 6, 8), drop_path=0.4,
                           layer_scales=(1.0, 1.0, 1e-6, 1e-6)),
    "mavit_l": MavitConfig((96, 192, 448, 640), (4, 7, 19, 8), (1, 2, 7, 10), drop_path=0.55,
                           layer_scales=(1e-6,) * 4, projection=2560),
}


def list_models() -> list[str]:
    return list(_CONFIGS)


def mavit_config(name: str) -> MavitConfig:
    if not isinstance(name, str):
        raise TypeError(f"the model's name is a {type(name).__name__}; it must be a str")
    if name not in _CONFIGS:
        raise ValueError(f"no model '{name}'; there are {', '.join(_CONFIGS)}")
    return _CONFIGS[name]


def with_mixers(config: MavitConfig, mixers: Mixers) -> MavitConfig:
    """The same model with other mixers, one for all stages or one for each."""
    words = mixers.split(",") if isinstance(mixers, str) else mixers
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"mixers is {mixers!r}; it must be a word, or a list of words")
    words = [check_mixer(word.strip()) for word in words]
    stages = len(config.dims)
    if len(words) not in (1, stages):
        raise ValueError(f"{len(words)} mixers; give one for all stages, or one for each of the "
                         f"{stages}, such as mala,mala,softmax,softmax")
    return replace(config, mixers=tuple(words * stages if len(words) == 1 else words))
