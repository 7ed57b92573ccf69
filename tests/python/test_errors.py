"""What wrong calls of the package raise: Python's own kinds, one sentence, and what to do."""

import mala
import pytest
import torch
from mala._arguments import raise_naturally

X = torch.zeros(1, 2, 6, 8)
TABLE = torch.zeros(6, 4)
STEP = X[:, :, :1]
ENDS = torch.tensor([0, 4, 6])

WRONG = {
    "list": (TypeError, lambda: mala.attention([1.0], X, X), "q is a list; it must be a torch.Tensor"),
    "none": (TypeError, lambda: mala.attention(X, X, None), "v is a NoneType"),
    "sparse": (TypeError, lambda: mala.attention(X.to_sparse(), X, X), "of the kind SparseCPU; make it dense"),
    "nested": (TypeError, lambda: mala.attention(X, torch.nested.nested_tensor([X[0], X[0]]), X),
               "of the kind NestedTensorCPU; .*cu_seqlens"),
    "layer's rule": (ValueError, lambda: mala.nn.MalaAttention(16, 2, rule="x"), 'rule is "x"; valid are'),
    "layer's size": (TypeError, lambda: mala.nn.MalaAttention("16", 2), "dim is a str; it must be an int"),
    "model's name": (TypeError, lambda: mala.create_model(["a"]), "name is a list; it must be a str"),
    "integers": (TypeError, lambda: mala.attention(*[X.long()] * 3), "q is Long.*float64"),
    "mixed types": (TypeError, lambda: mala.attention(X, X.double(), X), "k is Double.*q is Float"),
    "mixed devices": (ValueError, lambda: mala.attention(X, X, X.to("meta")), "v is Float on meta"),
    "rank": (ValueError, lambda: mala.attention(X[0], X, X), r"q has sizes \[2, 6, 8\]"),
    "head size": (ValueError, lambda: mala.attention(X, torch.zeros(1, 2, 6, 16), X), "16.*8"),
    "rule": (ValueError, lambda: mala.attention(X, X, X, rule="malla"), 'rule is "malla"; valid are'),
    "rule's type": (TypeError, lambda: mala.attention(X, X, X, rule=3), "rule is a int"),
    "eps's type": (TypeError, lambda: mala.attention(X, X, X, eps="x"), "eps is a str"),
    "rope": (ValueError, lambda: mala.attention(X, X, X, rope="2d"), "rope is '2d'.*rows, columns"),
    "rope's type": (TypeError, lambda: mala.attention(X, X, X, rope=7), "rope is a int"),
    "half a table": (TypeError, lambda: mala.attention(X, X, X, rope=(TABLE,)), "rope is a tuple of Tensor;"),
    "grid": (ValueError, lambda: mala.attention(X, X, X, rope=(2, 4)), "2 x 4 but q has 6 tokens"),
    "no grid": (ValueError, lambda: mala.attention(X, X, X, rope=(6, 0)), "6 x 0 but q has 6"),
    "packed grid": (ValueError, lambda: mala.attention(X, X, X, rope=(2, 2), cu_seqlens=ENDS),
                    "2 x 2 but sequence 1 of q has 2 tokens"),
    "packed grids": (ValueError, lambda: mala.attention(X, X, X, rope=[(2, 2), (9, 1)], cu_seqlens=ENDS),
                     "9 x 1 but sequence 1 of q has 2"),
    "offsets": (TypeError, lambda: mala.attention(X, X, X, cu_seqlens=[0, 3, 6]), "cu_seqlens is a list"),
    "lengths": (TypeError, lambda: mala.attention(X, X, X, key_lengths=torch.ones(1)),
                "key_lengths is Float"),
    "length": (ValueError, lambda: mala.attention(X, X, X, key_lengths=torch.tensor([7])), "1 to 6"),
    "state": (TypeError, lambda: mala.attention_chunk(X, X, X, X), "state is a Tensor"),
    "foreign state": (ValueError, lambda: mala.attention_chunk(X, X, X, (TABLE, TABLE)), "state"),
    "step of many": (ValueError, lambda: mala.attention_step(X, X, X), "one token|1 token|tokens"),
    "step's rank": (ValueError, lambda: mala.attention_step(STEP, STEP[0], STEP), "k and v have shapes"),
    "no processes": (RuntimeError, lambda: mala.sharded_attention(X, X, X), "init_process_group"),
    "heads": (ValueError, lambda: mala.nn.MalaAttention(60, 4), "multiple of 8 . heads"),
    "kv_heads": (ValueError, lambda: mala.nn.MalaAttention(64, 4, kv_heads=3), "must divide"),
    "mixer": (ValueError, lambda: mala.nn.MalaAttention2d(64, 4, "mamba"), "'mamba' is no mixer"),
    "not causal": (ValueError, lambda: mala.nn.MalaAttention(64, 4).step(X), "causal=True"),
    "model": (ValueError, lambda: mala.create_model("mavit_x"), "no model 'mavit_x'; there are mavit_n"),
    "argument": (TypeError, lambda: mala.create_model("mavit_n", dropp=1), "no argument 'dropp'"),
    "mixers": (ValueError, lambda: mala.create_model("mavit_n", mixers="mala,linear"), "2 mixers"),
    "number of mixers": (TypeError, lambda: mala.create_model("mavit_n", mixers=3), "mixers is 3"),
    "depths": (ValueError, lambda: mala.create_model("mavit_n", depths=(1, 1)), "depths has 2 entries"),
    "classes": (TypeError, lambda: mala.create_model("mavit_n", 3.5), "num_classes is a float"),
    "picture": (TypeError, lambda: mala.create_model("mavit_n")([1]), "the image is a list"),
    "channels": (ValueError, lambda: mala.nn.MalaAttention2d(64, 4)(X), "needs .batch, 64, height"),
    "no stage": (ValueError, lambda: mala.create_model("mavit_n").forward_intermediates(X, 0), "last 0"),
    "no module": (TypeError, lambda: mala.export_onnx(X, "x.onnx"), "it must be a torch.nn.Module"),
    "attribute": (AttributeError, lambda: mala.atention, "no attribute 'atention'; there are"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_call_is_explained(name):
    kind, call, text = WRONG[name]
    with pytest.raises(kind, match=text) as raised:
        call()
    assert type(raised.value) is kind and "\n" not in str(raised.value)


def test_errors_of_others_stay_what_they_are():
    for text in ("[enforce fail at alloc_cpu.cpp:124] not enough memory", "something else"):
        with pytest.raises(RuntimeError, match="not enough|else") as raised:
            raise_naturally(RuntimeError(text))
        assert type(raised.value) is RuntimeError


def test_second_derivative_is_refused():
    q = torch.rand(1, 1, 4, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(mala.attention(q, q, q).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="only first derivatives are computed"):
        torch.autograd.grad(slope.sum(), q)


def test_step_refuses_gradients():
    x = STEP.clone().requires_grad_()
    with pytest.raises((ValueError, RuntimeError), match="no_grad"):
        mala.attention_step(x, x, x)
