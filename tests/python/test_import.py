"""What import mala costs and says, and when timm learns of our models."""

import os
import subprocess
import sys

import pytest
from mala import _library

SECONDS = 0.2  # beyond torch's own


def python(script, **environment):
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=200,
                          env={**os.environ, **environment})


def test_import_is_quick_and_leaves_timm_alone():
    script = ("import torch, time, sys; t = time.process_time(); import mala; "
              "print(time.process_time() - t, 'timm' in sys.modules, 'mala.nn' in sys.modules)")
    result = python(script)
    seconds, *imported = result.stdout.split()
    assert imported == ["False", "False"], result.stderr
    assert float(seconds) < SECONDS


@pytest.mark.parametrize("order", ["import mala, timm", "import timm, mala"])
def test_timm_has_the_models(order):
    pytest.importorskip("timm", reason="timm is not installed")
    script = f"""{order}
import torch
images = torch.zeros(1, 3, 32, 32)
assert timm.list_models("mavit*") == ["mavit_b", "mavit_l", "mavit_n", "mavit_s", "mavit_t"]
model = timm.create_model("mavit_n", num_classes=5, drop_path_rate=0.2, mixers="linear", drop_rate=0.0,
                          img_size=32)
assert model(images).shape == (1, 5) and model.config.drop_path == 0.2
maps = timm.create_model("mavit_n", features_only=True, out_indices=(0, 2))
assert [tuple(x.shape) for x in maps(images)] == [(1, 64, 16, 16), (1, 128, 4, 4)]
assert maps.feature_info.channels() == [64, 128] and maps.feature_info.reduction() == [2, 8]
from timm.optim import param_groups_layer_decay, param_groups_weight_decay
decayed = param_groups_weight_decay(model, 0.05, model.no_weight_decay())
assert sum(len(group["params"]) for group in decayed) == len(list(model.parameters()))
assert len(param_groups_layer_decay(model, 0.05)) > 4
config = timm.data.resolve_data_config({{}}, model=model)
assert config["interpolation"] == "bicubic" and config["crop_pct"] == 0.875
"""
    result = python(script)
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr


def test_looking_for_timm_without_importing_it_does_no_harm():
    pytest.importorskip("timm", reason="timm is not installed")
    result = python("import mala, importlib.util as u; u.find_spec('timm'); import timm; "
                    "assert timm.is_model('mavit_t')")
    assert result.returncode == 0, result.stderr


def test_other_torch_is_refused():
    _library.check_torch("2.11.0+cu130", "2.11.0+cpu")
    with pytest.raises(ImportError, match=r"built for torch 2.10.0, but torch 2.11.0\+cpu is installed"):
        _library.check_torch("2.10.0", "2.11.0+cpu")


def test_missing_library_is_explained(tmp_path):
    result = python("import mala", MALA_OPS_LIBRARY=str(tmp_path / "no.so"))
    assert "ImportError: MALA_OPS_LIBRARY is" in result.stderr and "is no file" in result.stderr
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    result = python("import mala", MALA_OPS_LIBRARY=str(broken))
    assert "ImportError" in result.stderr and "does not load with torch" in result.stderr
