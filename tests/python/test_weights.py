"""Files of weights: those of others, and those that are none."""

import argparse
import os

import mala
import pytest
import torch
from mala.models import read_weights
from mala.models.weights import load_weights
from safetensors.torch import save_file


@pytest.fixture(scope="module")
def weights():
    torch.manual_seed(1)
    return mala.create_model("mavit_n").state_dict()


def write(path, weights, form):
    if form == "safetensors":
        save_file({name: value.contiguous() for name, value in weights.items()}, path)
    elif form == "released":  # as the training script of the authors saves
        torch.save({"model": weights, "epoch": 3, "args": argparse.Namespace(lr=1e-3)}, path)
    elif form == "old":  # before torch 1.6
        torch.save(weights, path, _use_new_zipfile_serialization=False)
    else:
        prefix = {"wrapped": "module.", "compiled": "module._orig_mod."}[form]
        torch.save({prefix + name: value for name, value in weights.items()}, path)


@pytest.mark.parametrize("form", ["safetensors", "released", "wrapped", "compiled", "old"])
def test_loads(tmp_path, weights, form):
    write(tmp_path / "file", weights, form)
    loaded = mala.create_model("mavit_n", weights=tmp_path / "file").state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in weights.items())


def test_model_without_memory_gets_weights(tmp_path, weights):
    write(tmp_path / "file", weights, "safetensors")
    with torch.device("meta"):
        model = mala.create_model("mavit_n")
    with pytest.raises(ValueError, match="no memory for weights .device meta.; call"):
        load_weights(model, tmp_path / "file")
    load_weights(model.to_empty(device="cpu"), tmp_path / "file")
    assert all(torch.equal(model.state_dict()[name], value) for name, value in weights.items())


def test_other_shapes_are_named_and_nothing_is_loaded(tmp_path, weights):
    write(tmp_path / "file", weights, "safetensors")
    with pytest.raises(ValueError, match=r"shape: 'head.weight' is \(10, 512, 1, 1\) and must"):
        mala.create_model("mavit_n", num_classes=4, weights=tmp_path / "file")
    torch.save({"a": torch.ones(1)}, tmp_path / "other")
    with pytest.raises(ValueError, match="missing: .* and .* more; 1 unexpected: 'a'"):
        mala.create_model("mavit_n", weights=tmp_path / "other")


def test_other_angles_are_refused(tmp_path, weights):
    name = "layers.0.RoPE.angle"
    torch.save({**weights, name: weights[name] * 2}, tmp_path / "file")
    with pytest.raises(ValueError, match="has other angles"):
        mala.create_model("mavit_n", weights=tmp_path / "file")
    torch.save({n: v for n, v in weights.items() if not n.endswith("angle")}, tmp_path / "file")
    mala.create_model("mavit_n", weights=tmp_path / "file")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("was_executed",)


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Evil()}, "file")
    with pytest.raises(ValueError, match="nothing in it was executed"):
        read_weights("file")
    assert not os.path.exists("was_executed")


def test_broken_files_are_refused(tmp_path, weights):
    for form in ("safetensors", "released"):
        write(tmp_path / "whole", {"a": torch.arange(10)}, form)
        whole = (tmp_path / "whole").read_bytes()
        for cut in (0, 3, 9, 30, len(whole) // 2, len(whole) - 1):
            (tmp_path / "cut").write_bytes(whole[:cut])
            with pytest.raises(ValueError):
                read_weights(tmp_path / "cut")
    with pytest.raises(FileNotFoundError, match="is no file"):
        read_weights(tmp_path / "nowhere")
    torch.save([1, 2], tmp_path / "list")
    with pytest.raises(ValueError, match="holds no arrays by name"):
        read_weights(tmp_path / "list")
