"""Our models in timm's registry; imported once timm is there."""

from dataclasses import replace
from typing import Any, Optional

from timm.models import build_model_with_cfg, generate_default_cfgs, register_model

from mala.models.config import Mixers, list_models, mavit_config, with_mixers
from mala.models.mavit import Mavit


def _pretrained_cfg(name: str) -> dict[str, Any]:
    size = 32 if name == "mavit_n" else 224
    return {
        "url": "", "num_classes": mavit_config(name).num_classes, "input_size": (3, size, size),
        "fixed_input_size": False, "pool_size": None, "crop_pct": 0.875, "interpolation": "bicubic",
        "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225),
        "first_conv": "patch_embed.proj.0", "classifier": "head",
    }


default_cfgs = generate_default_cfgs({name: _pretrained_cfg(name) for name in list_models()})


def _make(name: str, num_classes: int = 1000, in_chans: int = 3,
          drop_path_rate: Optional[float] = None, mixers: Optional[Mixers] = None,
          global_pool: str = "avg", drop_rate: float = 0.0, img_size: Any = None) -> Mavit:
    """timm's arguments to ours; img_size has no effect, as models take pictures of any size."""
    if drop_rate:
        raise ValueError(f"drop_rate is {drop_rate}; MAViT has no dropout, so leave it at 0 and "
                         "use drop_path_rate")
    if global_pool != "avg":
        raise ValueError(f"global_pool is '{global_pool}'; only 'avg' is there")
    config = replace(mavit_config(name), num_classes=num_classes)
    if drop_path_rate is not None:
        config = replace(config, drop_path=drop_path_rate)
    return Mavit(config if mixers is None else with_mixers(config, mixers), in_chans)


def _register(name: str) -> None:
    def entry(pretrained: bool = False, **arguments: Any) -> Mavit:
        features = {"out_indices": (0, 1, 2, 3), "feature_cls": "getter"}
        return build_model_with_cfg(_make, name, pretrained, name=name, feature_cfg=features,
                                    **arguments)

    entry.__name__ = entry.__qualname__ = name
    entry.__doc__ = f"{name} of MAViT, with timm's arguments and `mixers`."
    globals()[name] = entry
    register_model(entry)


for _name in list_models():
    _register(_name)
