"""The models of the package answer as the program does, which has them in C++."""

import json
import os
import subprocess

import mala
import pytest
import safetensors.torch
import torch
from conftest import ROOT

WEIGHTS = ROOT / "models" / "mavit_n.safetensors"
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)  # as models/README.md has them
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def write_pictures(folder, count, size):
    """Smooth ones: their files, and (count, 3, size, size) from 0 to 1."""
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    waves = torch.sin(torch.randn(count, 3, 5, 5))
    wide = torch.nn.functional.interpolate(waves, (size, size), mode="bilinear")
    bytes_ = (127 + 120 * wide).byte()
    for i, picture in enumerate(bytes_):
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(folder / f"{i}.png")
    return sorted(folder.glob("*.png")), bytes_ / 255


def normalised(images, mean, deviation):
    return (images - torch.tensor(mean)[:, None, None]) / torch.tensor(deviation)[:, None, None]


def answers(files, weights, classes, *words):
    command = [os.environ["MALA_PROGRAM"], "predict", *map(str, files), "--weights", str(weights),
               "--json", "--top", str(classes), "--device", "cpu", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = torch.zeros(len(files), classes)
    for i, line in enumerate(done.stdout.splitlines()):
        for answer in json.loads(line)["predictions"]:
            result[i, answer["index"]] = answer["probability"]
    return result


needs_program = pytest.mark.skipif("MALA_PROGRAM" not in os.environ,
                                   reason="the program was not built")


@needs_program
@pytest.mark.parametrize("mixers", ["mala", "mala,mala_balanced,mala_relu,mala_exp",
                                    "softmax,linear,inline,softmax"])
def test_both_give_the_same_probabilities(tmp_path, mixers):
    files, images = write_pictures(tmp_path, 4, 32)  # the model's own size: nobody resizes
    model = mala.create_model("mavit_n", weights=WEIGHTS, mixers=mixers).eval()
    with torch.no_grad():
        wanted = model(normalised(images, MEAN, DEVIATION)).softmax(1)
    found = answers(files, WEIGHTS, 10, "--mixers", mixers)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)


@needs_program
@pytest.mark.parametrize("name", ["mavit_t", "mavit_s", "mavit_b", "mavit_l"])
def test_both_have_the_same_weights(tmp_path, name):
    """Every name and shape is the program's own: it takes the file, and answers alike."""
    model = mala.create_model(name).eval()
    for layer in (m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)):
        layer.running_mean.normal_(std=0.1)  # so that every term counts
    torch.nn.init.normal_(model.head.weight, std=0.5)
    weights = tmp_path / "weights.safetensors"
    safetensors.torch.save_file(model.state_dict(), weights)
    files, images = write_pictures(tmp_path, 1, 256)  # of which models see the middle 224
    seen = normalised(images[:, :, 16:240, 16:240], IMAGENET_MEAN, IMAGENET_DEVIATION)
    with torch.no_grad():
        wanted = model(seen).softmax(1)
    torch.testing.assert_close(answers(files, weights, 1000), wanted, rtol=5e-3, atol=1e-5)
