"""Writes the small files of tests/fuzz/corpus with torch, safetensors and Pillow themselves.

    .venv/bin/python tests/fuzz/make_corpus.py

The files are kept, so that builds without Python replay them; tests/io and tests/data read some.
"""

import argparse
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image

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
    # Without checksums, so that what a fuzzer changes is not refused for that alone.
    torch.serialization.set_crc32_options(False)
    torch.save(checkpoint, folder / "unchecked.pth")
    torch.serialization.set_crc32_options(True)
    torch.save(weights(), folder / "legacy.pth", _use_new_zipfile_serialization=False)


def write_safetensors(folder):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: array.detach().contiguous() for name, array in weights().items()}
    safetensors.torch.save_file(arrays, folder / "several.safetensors", {"format": "pt"})
    safetensors.torch.save_file({}, folder / "none.safetensors")


def picture(mode):
    levels = np.add.outer(np.arange(12) * 9, np.arange(20) * 7)
    colours = np.stack([levels, levels[::-1], levels[:, ::-1]], axis=-1).astype(np.uint8)
    return Image.fromarray(colours).convert(mode)


def write_images(folder):
    folder.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[0x0112] = 3
    colour, clear = picture("RGB"), picture("RGBA")
    colour.save(folder / "plain.jpg", exif=exif, optimize=True)
    colour.save(folder / "progressive.jpg", progressive=True)
    picture("L").save(folder / "grey.jpg", optimize=True)
    picture("CMYK").save(folder / "ink.jpg", optimize=True)
    colour.save(folder / "plain.png", exif=exif)
    clear.save(folder / "alpha.png")
    picture("1").save(folder / "bits.png")
    colour.quantize(8).save(folder / "palette.png", transparency=1)
    Image.fromarray(np.arange(240, dtype=np.uint16).reshape(12, 20) * 270).save(
        folder / "sixteen.png"
    )
    colour.save(folder / "plain.webp", exif=exif)
    clear.save(folder / "alpha.webp")
    colour.save(folder / "lossless.webp", lossless=True)
    colour.save(folder / "film.webp", save_all=True, append_images=[colour.rotate(180)])
    colour.save(folder / "plain.ppm")
    words = " ".join(str(level * 7 % 10) for level in range(240))
    (folder / "words.pgm").write_text(f"P2 # grey\n20 12\n9\n{words}\n")


if __name__ == "__main__":
    write_pth(CORPUS / "pth")
    write_safetensors(CORPUS / "safetensors")
    write_images(CORPUS / "image")
