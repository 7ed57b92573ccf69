"""Files that torch and safetensors write, read by us, written by us, and read by them again."""

import argparse
import collections
import os
import pathlib
import subprocess
import zipfile

import pytest
import safetensors.torch
import torch

PROGRAM = os.environ["MALA_CONVERT_WEIGHTS"]
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
NARROW = [torch.float8_e4m3fn, torch.float8_e5m2]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]


def convert(source, *options):
    target = source.with_suffix(".out")
    return target, subprocess.run(
        [PROGRAM, source, target, *options], capture_output=True, text=True, check=False
    )


def read(source, *options):
    target, result = convert(source, *options)
    assert result.returncode == 0, result.stderr
    return safetensors.torch.load_file(target)


def refusal(source, *options):
    _, result = convert(source, *options)
    assert result.returncode == 1, result.stdout
    assert str(source) in result.stderr
    return result.stderr


def assert_same(got, wanted):
    assert got.keys() == wanted.keys()
    for name, tensor in wanted.items():
        tensor = tensor.detach().contiguous()
        assert got[name].dtype == tensor.dtype, name
        assert got[name].shape == tensor.shape, name
        same = got[name].reshape(-1).view(torch.uint8) == tensor.reshape(-1).view(torch.uint8)
        assert same.all(), name


def every_type():
    whole = torch.arange(-3, 9).reshape(3, 4)
    tensors = {str(t): whole.to(t) / 3 for t in FLOATS}
    tensors |= {str(t): (whole.float() / 3).to(t) for t in NARROW}
    tensors |= {str(t): whole.to(t) for t in INTEGERS}
    tensors |= {str(t): whole.abs().to(t) for t in UNSIGNED}
    return tensors | {"bool": whole > 2}


def every_layout():
    base = torch.arange(120.0).reshape(2, 3, 4, 5)
    shared = torch.arange(10.0)
    return {
        "contiguous": base,
        "channels_last": base.to(memory_format=torch.channels_last),
        "turned": base.permute(3, 1, 0, 2),
        "slice": base[:, 1:, ::2, 1:4],
        "inner": base[1],
        "repeated": torch.tensor([[1.0], [2.0]]).expand(2, 3),
        "first half": shared[:5],
        "second half": shared[5:],
        "scalar": torch.tensor(2.5),
        "none": torch.zeros(0, 3),
        "of one": torch.ones(1, 3, 1).transpose(0, 2),
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "buffer": torch.nn.Buffer(torch.ones(2)),
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_types_and_layouts(tmp_path, protocol):
    for number, tensors in enumerate([every_type(), every_layout()]):
        file = tmp_path / f"{number}.pth"
        torch.save(tensors, file, pickle_protocol=protocol)
        assert_same(read(file), tensors)


def test_safetensors(tmp_path):
    file = tmp_path / "a.safetensors"
    tensors = {name: tensor.contiguous() for name, tensor in every_type().items()}
    safetensors.torch.save_file(tensors, file, {"note": "größer"})
    assert_same(read(file), tensors)
    with safetensors.safe_open(file.with_suffix(".out"), "pt") as out:
        assert out.metadata() == {"note": "größer"}


def wrapped(weights):
    module = {f"module.{name}": tensor for name, tensor in weights.items()}
    return {
        "plain": weights,
        "ordered": collections.OrderedDict(weights),
        "model": {"epoch": 3, "model": weights},
        "state_dict": {"state_dict": module, "optimizer": {"state": {}}},
        "nested": {"model": {"state_dict": module}},
        "ema alone": {"model_ema": module, "epoch": 1},
        "beside ema": {"model_ema": {"x": torch.zeros(1)}, "model": weights},
        "module": module,
    }


@pytest.mark.parametrize("kind", wrapped({}).keys())
def test_wrappers(tmp_path, kind):
    weights = {"a.weight": torch.randn(3, 4), "a.bias": torch.randn(3)}
    torch.save(wrapped(weights)[kind], tmp_path / "a.pth")
    assert_same(read(tmp_path / "a.pth"), weights)


class Settings:
    """A class that only this script knows."""

    def __init__(self):
        self.words, self.table = {"a", "b"}, {1: (2.5, None)}


def test_training_leftovers_are_skipped(tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": {"last": 1, "huge": 10**40, "bytes": b"123", "set": frozenset("ab")},
        "args": argparse.Namespace(lr=1e-3, output=pathlib.Path("out"), size=torch.Size([2, 3])),
        "settings": Settings(),
        "scaler": collections.defaultdict(list, {"a": [1]}),
        "model_ema": {"0.weight": torch.ones(1)},
        "rng": torch.get_rng_state(),
    }
    torch.save(checkpoint, tmp_path / "a.pth")
    assert_same(read(tmp_path / "a.pth"), model.state_dict())
    assert_same(read(tmp_path / "a.pth", "averaged"), checkpoint["model_ema"])


class Marked(torch.Tensor):
    """A subclass, which torch saves through another function."""


def test_subclasses(tmp_path):
    marked = torch.arange(6.0).reshape(2, 3).t().as_subclass(Marked)
    torch.save({"w": marked}, tmp_path / "a.pth")
    assert_same(read(tmp_path / "a.pth"), {"w": marked.as_subclass(torch.Tensor)})


def test_files_without_checksums(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(every_layout(), tmp_path / "a.pth")
    finally:
        torch.serialization.set_crc32_options(True)
    assert_same(read(tmp_path / "a.pth"), every_layout())


def test_a_damaged_weight_is_found(tmp_path):
    file = tmp_path / "a.pth"
    torch.save({"w": torch.full((1000,), 7.0)}, file)
    bytes_ = bytearray(file.read_bytes())
    place = bytes_.index(torch.full((100,), 7.0).numpy().tobytes())
    bytes_[place + 17] ^= 1
    file.write_bytes(bytes_)
    assert "checksum differs" in refusal(file)


def test_what_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "a.pth"
    torch.save(torch.nn.Linear(2, 3), file)
    assert "an object of 'Linear'" in refusal(file)
    torch.save({"w": torch.eye(3).to_sparse()}, file)
    assert "'w' is kept by torch's '_rebuild_sparse_tensor'" in refusal(file)
    torch.save({"w": torch.zeros(2, dtype=torch.complex64)}, file)
    assert "ComplexFloatStorage" in refusal(file)
    torch.save({"w": torch.zeros(2)}, file, _use_new_zipfile_serialization=False)
    assert "before version 1.6" in refusal(file)
    torch.jit.script(torch.nn.Linear(2, 3)).save(str(file))
    assert "TorchScript" in refusal(file)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"}." + b" " * 1000)
    assert "compressed" in refusal(file)
