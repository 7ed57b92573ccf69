"""mala.create_model."""

import os
from dataclasses import replace
from typing import Any, Optional, Union

from mala.models.config import Mixers, mavit_config, with_mixers
from mala.models.mavit import Mavit
from mala.models.weights import load_weights


def create_model(name: str, num_classes: Optional[int] = None,
                 weights: Optional[Union[str, os.PathLike]] = None, mixers: Optional[Mixers] = None,
                 **overrides: Any) -> Mavit:
    """A MAViT: mavit_t, mavit_s, mavit_b, mavit_l as published, or mavit_n for small pictures.

    Args:
        name: one of mala.list_models().
        num_classes: of the head; None is the model's own, 1000 or for mavit_n 10.
        weights: a file, safetensors or of torch.save. To fine-tune on other classes, create the
            model with the file's, then call reset_classifier.
        mixers: other rules of attention: one for all stages, or four, such as
            "mala,mala,softmax,softmax".
        overrides: other fields of MavitConfig, such as drop_path.
    """
    config = mavit_config(name)
    if mixers is not None:
        config = with_mixers(config, mixers)
    if num_classes is not None:
        config = replace(config, num_classes=num_classes)
    unknown = sorted(set(overrides) - set(config.__dataclass_fields__))
    if unknown:
        raise TypeError(f"create_model has no argument '{unknown[0]}'; besides its own it takes "
                        f"{', '.join(config.__dataclass_fields__)}")
    model = Mavit(replace(config, **overrides))
    if weights is not None:
        load_weights(model, weights)
    return model
