"""torch.ops.mala.attention: its values, its layouts and its threads."""

import json
import os
import subprocess
import sys

import cases
import formula
import pytest
import torch

attention = torch.ops.mala.attention

# Rounding of the kernels and of the formula, relative to the largest value of out.
TOLERANCE = {torch.float: 5e-5, torch.double: 1e-12}


def assert_near(actual, expected, dtype):
    error = (actual.double() - expected).abs().max() / expected.abs().max()
    assert error < TOLERANCE[dtype], f"relative error {error:.1e}"


@pytest.mark.parametrize("rope", cases.ROPES)
def test_equals_the_formula_for_all_options(device, rope):
    queries, keys, dim, value_dim = 5, 7, 16, 24
    x = [cases.heads(2, 3, n, dim, torch.double) for n in (queries, keys)]
    x += [cases.heads(2, 3, n, value_dim, torch.double) for n in (keys, queries, queries)]
    for dtype in cases.exact_types(device):
        q, k, v, local, gate = (y.to(dtype) for y in x)
        tails = [{}, {"local": local}, {"gate": gate}, {"local": local, "gate": gate}]
        for i, options in enumerate(cases.all_options(queries, keys, dim)):
            if options.get("rope", "none") != rope:
                continue
            tail = tails[(i + i // 4) % 4]
            doubles = {name: y.double() for name, y in tail.items()}
            expected = formula.attention(q.double(), k.double(), v.double(), **doubles, **options)
            assert_near(attention(q, k, v, **tail, **options), expected, dtype)


@pytest.mark.parametrize("tokens", [1, 2, 63, 1000])
def test_equals_the_formula_at_any_length(device, tokens):
    q, k, v = (cases.heads(1, 2, tokens, 64) for _ in range(3))
    expected = formula.attention(q.double(), k.double(), v.double(), rope="1d")
    assert_near(attention(q, k, v, rope="1d"), expected, torch.float)


def test_shared_table_serves_queries_and_keys(device):
    dtype = cases.exact_types(device)[-1]
    q, k, v = (cases.heads(1, 2, 6, 8, dtype) for _ in range(3))
    angles = torch.rand(9, 4)
    options = {"rope": "table", "rope_table": [angles.cos(), angles.sin()]}
    expected = formula.attention(q.double(), k.double(), v.double(), **options)
    assert_near(attention(q, k, v, **options), expected, dtype)


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_layout_changes_no_value(device, layout):
    x = [cases.heads(2, 3, 40, 16) for _ in range(5)]
    q, k, v, local, gate = (layout(y) for y in x)
    expected = attention(*x[:3], local=x[3], gate=x[4], rope="1d")
    actual = attention(q, k, v, local=local, gate=gate, rope="1d")
    assert_near(actual, expected.double(), torch.float)


def test_expanded_inputs(device):
    q, k = (cases.heads(1, 1, 9, 8).expand(2, 3, 9, 8) for _ in range(2))
    v = cases.heads(2, 3, 1, 8).expand(2, 3, 9, 8)
    expected = formula.attention(q.double(), k.double(), v.double())
    assert_near(attention(q, k, v), expected, torch.float)


def test_out_keeps_the_order_of_q(device):
    q, k, v = (cases.heads(2, 3, 40, 16) for _ in range(3))
    assert attention(q, k, v).is_contiguous()
    for layout in (cases.tokens_outside, cases.packed, cases.channels_last):
        assert attention(layout(q), k, v).transpose(1, 2).is_contiguous()
    assert attention(cases.channels_first(q), k, v).transpose(2, 3).is_contiguous()


def allocated_bytes(run):
    """All that torch's CPU allocator hands out during run()."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(profile_memory=True, activities=cpu, acc_events=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    return sum(max(e.nbytes(), 0) for e in events if e.name() == "[memory]")


@pytest.mark.parametrize("layout", cases.LAYOUTS)
def test_strided_inputs_are_not_copied(layout):
    q, k, v = (layout(cases.heads(1, 2, 16384, 32)).requires_grad_() for _ in range(3))
    tensor_bytes = q.numel() * q.element_size()
    assert allocated_bytes(lambda: q.detach().clone()) >= tensor_bytes  # the measure sees copies

    out = None

    def forward():
        nonlocal out
        out = attention(q, k, v)

    assert allocated_bytes(forward) < 1.6 * tensor_bytes  # out itself, state and scratch
    grad = torch.ones(1).expand(out.shape)
    backward = allocated_bytes(lambda: torch.autograd.grad(out, (q, k, v), grad))
    assert backward < 3.6 * tensor_bytes  # dq, dk, dv and scratch


def test_threads_change_no_bit():
    q, k, v, local, gate = (cases.heads(1, 1, 5000, 64).requires_grad_() for _ in range(5))
    results = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        out = attention(q, k, v, local=local, gate=gate, rope="1d")
        results.append([out, *torch.autograd.grad(out.sin().sum(), (q, k, v, local, gate))])
    for other in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], other))


THREADS_SCRIPT = """
import json, os, sys, threading, time, torch
torch.ops.load_library(os.environ["MALA_OPS_LIBRARY"])

def tasks():
    return len(os.listdir("/proc/self/task"))

x = torch.randn(1, 1, 20000, 64)
run = lambda: torch.ops.mala.attention(x, x, x)
seen = {}
torch.set_num_threads(1)
start = tasks()
run()
seen["with one thread"] = tasks() - start

def in_new_thread():
    run()
    seen["one thread, from a new one"] = tasks() - start - 1
thread = threading.Thread(target=in_new_thread)
thread.start()
thread.join()
for _ in range(500):  # the system may list the thread a little longer
    if tasks() > start:
        time.sleep(0.01)

torch.set_num_threads(3)
run()
seen["with three threads"] = tasks() - start
torch.zeros(10_000_000).exp_()
seen["after an operator of torch"] = tasks() - start
maps = open("/proc/self/maps").read().split()
seen["libgomp"] = len({path for path in maps if "libgomp" in path})
print(json.dumps(seen))
"""


def test_shares_the_thread_pool_of_torch():
    """torch.set_num_threads governs our kernels, in every thread, and the pool is one."""
    # OpenMP's own default differs from all counts that the script asks torch for.
    environment = {**os.environ, "OMP_NUM_THREADS": "5"}
    script = [sys.executable, "-c", THREADS_SCRIPT]
    seen = json.loads(subprocess.check_output(script, env=environment))
    assert seen == {
        "with one thread": 0,
        "one thread, from a new one": 0,
        "with three threads": 2,
        "after an operator of torch": 2,
        "libgomp": 1,
    }


@pytest.mark.parametrize("feature, padding", [("elu1", -1000.0), ("exp", -1000.0), ("relu", 0.0)])
def test_padding_as_the_message_advises(feature, padding):
    """A head size of 12, which is refused, through one of 16."""
    q, k, v = (cases.heads(1, 2, 9, 12) for _ in range(3))
    with pytest.raises(RuntimeError, match="head size 12.*pad q and k.*-1000"):
        attention(q, k, v)
    pad = torch.nn.functional.pad
    out = attention(pad(q, (0, 4), value=padding), pad(k, (0, 4), value=padding), pad(v, (0, 4)),
                    feature=feature, scale=12**-0.5)[..., :12]
    torch.testing.assert_close(out, formula.attention(q, k, v, feature=feature))
