"""The models of the package answer as the program does, which has them in C++."""

import json
import os
import subprocess

import mala
import pytest
import torch
from conftest import ROOT

WEIGHTS = ROOT / "models" / "mavit_n.safetensors"
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)  # as models/README.md has them


@pytest.fixture
def pictures(tmp_path):
    """Smooth ones of the model's own size, so that nobody resizes: files, and what models get."""
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    waves = torch.sin(torch.randn(4, 3, 5, 5))
    bytes_ = (127 + 120 * torch.nn.functional.interpolate(waves, (32, 32), mode="bilinear")).byte()
    for i, picture in enumerate(bytes_):
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(tmp_path / f"{i}.png")
    scale = [torch.tensor(x)[:, None, None] for x in (MEAN, DEVIATION)]
    return sorted(tmp_path.glob("*.png")), (bytes_ / 255 - scale[0]) / scale[1]


def answers(files, mixers):
    command = [os.environ["MALA_PROGRAM"], "predict", *map(str, files), "--weights", str(WEIGHTS),
               "--mixers", mixers, "--json", "--top", "10", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = torch.zeros(len(files), 10)
    for i, line in enumerate(done.stdout.splitlines()):
        for answer in json.loads(line)["predictions"]:
            result[i, answer["index"]] = answer["probability"]
    return result


@pytest.mark.skipif("MALA_PROGRAM" not in os.environ, reason="the program was not built")
@pytest.mark.parametrize("mixers", ["mala", "mala,mala_balanced,mala_relu,mala_exp",
                                    "softmax,linear,inline,softmax"])
def test_both_give_the_same_probabilities(pictures, mixers):
    files, images = pictures
    model = mala.create_model("mavit_n", weights=WEIGHTS, mixers=mixers).eval()
    with torch.no_grad():
        wanted = model(images).softmax(1)
    torch.testing.assert_close(answers(files, mixers), wanted, rtol=1e-3, atol=1e-5)
