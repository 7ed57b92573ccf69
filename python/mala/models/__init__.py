"""MAViT by name, and its weights from files."""

from mala.models.config import MavitConfig, list_models, mavit_config, with_mixers
from mala.models.create import create_model
from mala.models.mavit import Mavit
from mala.models.weights import load_weights, read_weights

__all__ = ["Mavit", "MavitConfig", "create_model", "list_models", "load_weights", "mavit_config",
           "read_weights", "with_mixers"]
