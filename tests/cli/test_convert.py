"""`mala convert`: what torch saved comes out the same, and nothing is lost on the way."""

import resource
import signal

import pytest
import safetensors
import safetensors.torch
import torch
from conftest import LABELS, SIZE, TINY, mala, picture


@pytest.fixture
def checkpoint(tmp_path):
    """As training scripts leave it."""
    model = {f"module.{name}": value for name, value in safetensors.torch.load_file(TINY).items()}
    averaged = {name: value + 1 if value.is_floating_point() and "angle" not in name else value
                for name, value in model.items()}
    path = tmp_path / "checkpoint.pth"
    torch.save({"model": model, "model_ema": averaged, "epoch": 3, "args": {"lr": 0.1}}, path)
    return path


def metadata(path):
    with safetensors.safe_open(path, "pt") as file:
        return file.metadata()


def test_a_checkpoint(tmp_path, checkpoint):
    out = tmp_path / "out.safetensors"
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    mala("convert", checkpoint, out, "--labels", tmp_path / "labels.txt")
    wanted, got = safetensors.torch.load_file(TINY), safetensors.torch.load_file(out)
    assert wanted.keys() == got.keys()
    assert all(torch.equal(got[name], wanted[name]) for name in wanted)
    assert metadata(out)["mala.model"] == "mavit" and "gnu" in metadata(out)["mala.labels"]
    picture(1).save(tmp_path / "a.png")
    words = ["predict", tmp_path / "a.png", "--size", SIZE, "--json", "--weights"]
    from_out, from_checkpoint = mala(*words, out).out, mala(*words, checkpoint).out
    for label in LABELS:
        from_out = from_out.replace(f'"{label}"', "null")
    assert from_out == from_checkpoint


def test_other_types_and_the_averaged_weights(tmp_path, checkpoint):
    wanted = safetensors.torch.load_file(TINY)
    for word, dtype in {"bf16": torch.bfloat16, "float16": torch.float16}.items():
        out = tmp_path / f"{word}.safetensors"
        mala("convert", checkpoint, out, "--dtype", word)
        got = safetensors.torch.load_file(out)
        for name, value in wanted.items():
            assert torch.equal(got[name], value.to(dtype) if value.is_floating_point() else value)
    out = tmp_path / "averaged.safetensors"
    mala("convert", checkpoint, out, "--ema")
    assert torch.equal(safetensors.torch.load_file(out)["head.bias"], wanted["head.bias"] + 1)


def test_metadata_of_others_is_kept(tmp_path):
    source, out = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    safetensors.torch.save_file({"x": torch.ones(2)}, source, {"note": "größer", "format": "pt"})
    mala("convert", source, out)
    assert metadata(out) == {"note": "größer", "format": "pt"}


def test_what_is_there_is_not_lost(tmp_path, checkpoint):
    out = tmp_path / "out.safetensors"
    out.write_text("precious")
    assert "--force" in mala("convert", checkpoint, out, code=1).err
    assert out.read_text() == "precious"
    for device in ("/dev/full", tmp_path):
        run = mala("convert", checkpoint, device, "--force", code=1)
        assert "is a folder or a device" in run.err

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    run = mala("convert", checkpoint, out, "--force", code=1, preexec_fn=small_disk)
    assert "cannot be written" in run.err
    assert out.read_text() == "precious"
    assert not list(tmp_path.glob("*.part-*"))
    mala("convert", checkpoint, out, "--force")
    assert "head.bias" in safetensors.torch.load_file(out)


def test_refusals(tmp_path, checkpoint):
    out = tmp_path / "out.safetensors"
    run = mala("convert", tmp_path / "none.pth", out, code=1)
    assert "none.pth" in run.err
    (tmp_path / "labels.txt").write_text("one\n")
    run = mala("convert", checkpoint, out, "--labels", tmp_path / "labels.txt", code=1)
    assert "7 classes" in run.err and "1 labels" in run.err
    run = mala("convert", checkpoint, tmp_path / "no/folder/out", code=1)
    assert "cannot be written" in run.err
    assert not out.exists()
