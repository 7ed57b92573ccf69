"""Tokens in two processes: the halves with a real all-reduce between them."""

import os
import subprocess
import sys

import cases
import pytest
import torch

# Each process takes its half of the tokens and prints nothing; results go to a file.
SHARD_SCRIPT = """
import os, sys, torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce
folder, rank = sys.argv[1], int(sys.argv[2])
torch.ops.load_library(os.environ["MALA_OPS_LIBRARY"])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)

begin, end = [(0, 5), (5, 12)][rank]
q, k, v = (x[:, :, begin:end].requires_grad_() for x in torch.load(f"{folder}/inputs"))
state = all_reduce(torch.ops.mala.attention_keys(k, v, rope="1d", rope_offset=begin))
count = torch.full([q.shape[0]], end - begin)
dist.all_reduce(count)
out = torch.ops.mala.attention_queries(q, state, count, rope="1d", rope_offset=begin)
torch.save([out, *torch.autograd.grad(out.sin().sum(), (q, k, v))], f"{folder}/{rank}")
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without processes")
def test_two_processes_give_what_one_does(tmp_path):
    inputs = [cases.heads(2, n, 12, 8, torch.double) for n in (4, 2, 2)]
    torch.save(inputs, tmp_path / "inputs")
    # Both are on this machine, whatever networks it has.
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SHARD_SCRIPT, str(tmp_path)]
    shards = [subprocess.Popen([*command, str(rank)], env=environment) for rank in range(2)]
    try:
        assert [shard.wait(timeout=200) for shard in shards] == [0, 0]
    finally:  # one alone would wait for the other
        for shard in shards:
            shard.kill()

    q, k, v = (x.requires_grad_() for x in inputs)
    out = torch.ops.mala.attention(q, k, v, rope="1d")
    whole = [out, *torch.autograd.grad(out.sin().sum(), (q, k, v))]
    parts = zip(*(torch.load(tmp_path / str(rank)) for rank in range(2)))
    for wanted, halves in zip(whole, parts):
        torch.testing.assert_close(torch.cat(halves, dim=2), wanted, rtol=1e-11, atol=1e-11)
