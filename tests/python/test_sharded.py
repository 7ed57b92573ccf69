"""Tokens in two processes give what one process gives, forward and backward."""

import mala
import plain
import torch

SCRIPT = """
calls = []
real = dist.all_reduce
dist.all_reduce = lambda *a, **k: (calls.append(a[0].numel()), real(*a, **k))
inputs = torch.load(f"{folder}/inputs")
results = []
for begin, end, options in (
    [(0, 6), (6, 12)][rank] + ({"rope": "1d"},),
    [(0, 5), (5, 12)][rank] + ({"rope": (3, 4), "offset": [0, 5][rank], "norm": "balanced"},),
    [(0, 5), (5, 12)][rank] + ({"key_lengths": torch.tensor([[2, 5], [7, 3]][rank])},),
):
    q, k, v = (x[:, :, begin:end].clone().requires_grad_() for x in inputs)
    out = mala.sharded_attention(q, k, v, **options)
    results.append([out.detach(), *torch.autograd.grad(out.sin().sum(), (q, k, v))])
# As many queries as keys in neither process.
q, k, v = inputs[0][:, :, rank * 2:rank * 2 + 2], *(x[:, :, rank * 6:rank * 6 + 6] for x in inputs[1:])
crossed = mala.sharded_attention(q, k, v, rope="1d", group=dist.group.WORLD)
torch.save([results, len(calls), crossed], f"{folder}/{rank}")
for wrong, text in (({"rope": "1d", "cu_seqlens": torch.tensor([0, 6])}, "packed sequences"),
                    ({"rope": (3, 5)}, "3 x 5 but q has")):
    try:
        mala.sharded_attention(q[:1], k[:1], v[:1], **wrong)
        sys.exit("taken: " + text)
    except ValueError as error:
        assert text in str(error), error
short = torch.rand(8, 4), torch.rand(8, 4)  # enough for the first process alone
try:
    mala.sharded_attention(k, k, v, rope=short)
    sys.exit("a table that is too short was taken")
except (ValueError, RuntimeError) as error:
    assert ("table" if rank else "1 other processes") in str(error), error
begin, end = [(0, 5), (5, 12)][rank]
try:
    mala.sharded_attention(*(x[:, :, begin:end] for x in inputs), rope="1d")
    sys.exit("unequal shards without an offset were taken")
except ValueError as error:
    assert "[5, 7] tokens; pass offset" in str(error), error
dist.destroy_process_group()
"""


def test_two_processes_give_what_one_does(two_processes, tmp_path):
    q, k, v = (torch.rand(2, n, 12, 8, dtype=torch.double, requires_grad=True) for n in (4, 2, 2))
    torch.save([x.detach() for x in (q, k, v)], tmp_path / "inputs")
    (first, calls, begin), (second, other_calls, end) = two_processes(SCRIPT)
    assert calls == other_calls == 7  # one each way for each of the three, one for queries apart
    torch.testing.assert_close(torch.cat([begin, end], 2), mala.attention(q[:, :, :4], k, v, rope="1d"),
                               rtol=1e-10, atol=1e-10)
    forms = {"rope": "1d"}, {"rope": (3, 4), "norm": "balanced"}
    for options, halves in zip(forms, zip(first, second)):
        out = mala.attention(q, k, v, **options)
        whole = [out, *torch.autograd.grad(out.sin().sum(), (q, k, v))]
        for wanted, parts in zip(whole, zip(*halves)):
            torch.testing.assert_close(torch.cat(parts, 2), wanted, rtol=1e-10, atol=1e-10)
    # Of the first process's five keys 2 and 5 count, of the second's seven 7 and 3.
    for entry, kept in enumerate(([0, 1, *range(5, 12)], list(range(8)))):
        one = slice(entry, entry + 1)
        wanted = plain.mala(q[one], k[one, :, kept], v[one, :, kept])
        ours = torch.cat([first[2][0], second[2][0]], 2)[entry : entry + 1]
        torch.testing.assert_close(ours, wanted, rtol=1e-6, atol=1e-6)
