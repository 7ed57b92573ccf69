"""Writes the small weight files of tests/fuzz/corpus with torch and safetensors themselves.

    .venv/bin/python tests/fuzz/make_corpus.py

The files are kept, so that builds without Python replay them; tests/io reads some by name.
"""

import argparse
from pathlib import Path

import safetensors.torch
import torch

CORPUS = Path(__file__).parent / "corpus"


def weights():
    grid = torch.arange(6.0).reshape(2, 3)
    return {
        "module.a.weight": grid,
        "module.turned": grid.t(),
        "module.a.bias": torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        "module.steps": torch.tensor(3),
    }


def write_pth(folder):
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = {
        "model": weights(),
        "model_ema": {"a.weight": torch.tensor([7.0, 8.0])},
        "optimizer": {"state": {0: {"step": 1}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "args": argparse.Namespace(lr=0.1, data=Path("images"), resume=None),
    }
    torch.save(checkpoint, folder / "checkpoint.pth")
    torch.save({"w": torch.zeros(2, dtype=torch.uint16), "epoch": 3}, folder / "plain.pth")
    torch.save(weights(), folder / "protocol5.pth", pickle_protocol=5)
    torch.save(weights(), folder / "legacy.pth", _use_new_zipfile_serialization=False)


def write_safetensors(folder):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: array.detach().contiguous() for name, array in weights().items()}
    safetensors.torch.save_file(arrays, folder / "several.safetensors", {"format": "pt"})
    safetensors.torch.save_file({}, folder / "none.safetensors")


if __name__ == "__main__":
    write_pth(CORPUS / "pth")
    write_safetensors(CORPUS / "safetensors")
