"""The notebook, the recipes of docs/python.md and python -m mala.bench, run as they stand."""

import itertools
import json
import re
import subprocess
import sys

import pytest
import torch
from conftest import ROOT


def test_notebook_runs():
    cells = json.loads((ROOT / "examples" / "quick_start.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # what it shows is made where it runs
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["losses"][-1] < names["losses"][0]


def recipes():
    text = (ROOT / "docs" / "python.md").read_text()
    return re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```", text, re.S | re.M)


def test_documents_have_the_three_recipes():
    titles = " ".join(title for title, _ in recipes())
    assert all(word in titles for word in ("in your ViT", "in your causal model", "Fine-tune"))


@pytest.mark.parametrize("title, code", recipes(), ids=[title for title, _ in recipes()])
def test_code_of_the_documents_runs(title, code, tmp_path, monkeypatch):
    if "timm" in code:
        pytest.importorskip("timm", reason="timm is not installed")
    monkeypatch.chdir(tmp_path)
    if "MAViT_T.pth" in code:  # a file of the same names, and of a size that a test can bear
        import mala

        torch.save({"model": mala.create_model("mavit_n").state_dict()}, "MAViT_T.pth")
        code = code.replace("mavit_t", "mavit_n").replace("224", "32")
    exec(compile(code, title, "exec"), {"__name__": "recipe"})


def bench(*arguments):
    command = [sys.executable, "-m", "mala.bench", "--device", "cpu", "--seconds", "0.01", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=400)


def test_bench_of_the_operator():
    result = bench("--tokens", "64", "--dim", "16", "--seconds", "0.05")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["mala", "formula", "compiled", "sdpa"]
    for line, kind in zip(lines[2:], ("forward", "with gradient")):
        times = line.removeprefix(f"64 tokens, {kind}").split()
        assert len(times) == 4 and all(float(time) > 0 for time in times)


def test_bench_of_models(monkeypatch, capsys):
    pytest.importorskip("timm", reason="timm is not installed")
    from mala.bench import __main__, models

    monkeypatch.setattr(torch, "compile", lambda model, **_: model)  # it takes minutes
    monkeypatch.setattr(models, "OTHERS", ("convnext_atto",))
    monkeypatch.setattr(sys, "argv", ["bench", "--models", "--model", "mavit_n", "--device", "cpu", "--sizes",
                                      "2x32x32", "1x64x32", "--seconds", "0.01", "--dtype", "bfloat16"])
    __main__.main()
    title, head, *rows = capsys.readouterr().out.splitlines()
    assert "bfloat16 on cpu" in title and head.split() == ["eager", "compile"] and len(rows) == 6
    names = ("mavit_n", "published structure", "convnext_atto")
    for row, (size, name) in zip(rows, itertools.product(("2 x 32 x 32", "1 x 64 x 32"), names)):
        times = row.removeprefix(f"{name}, {size}").split()
        assert len(times) == 2 and all(float(time) > 0 for time in times)


@pytest.mark.parametrize("arguments, text", [
    (["--models", "--sizes", "64"], "give batch x height x width"),
    (["--tokens", "0"], "'0' is no number from 1 on"),
    (["--dim", "12"], "a multiple of 8 up to 256"),
    (["--device", "foo"], "'foo' is no device"),
    (["--models", "--model", "mavit_x"], "invalid choice: 'mavit_x'"),
])
def test_bench_says_what_is_wrong(arguments, text, monkeypatch, capsys):
    from mala.bench import __main__

    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as stopped:
        __main__.main()
    assert stopped.value.code == 2 and text in capsys.readouterr().err
