"""MALA as a plain PyTorch formula over the full map of weights, written for these tests alone."""

import torch


def turned(x, angles):
    """Neighbours (even, odd) turned by (N, D / 2) angles."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def line(tokens, dim, first=0):
    return (torch.arange(first, first + tokens).double()[:, None]
            * 10000.0 ** (-torch.arange(0, dim, 2).double() / dim))


def grid(rows, columns, dim):
    frequencies = 10000.0 ** -torch.linspace(0, 1, dim // 4, dtype=torch.double)
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.cat([x.flatten()[:, None] * frequencies for x in (row, column)], 1)


FEATURES = {"elu1": lambda x: torch.where(x > 0, x + 1, x.clamp(max=0).exp()), "relu": torch.relu,
            "exp": torch.exp, "identity": lambda x: x}


def mala(q, k, v, angles=None, *, rule="mala", feature="elu1", norm="published", causal=False,
         key_mean=True, scale=None, eps=1e-6, local=0, gate=1):
    """In double. Every query's weights over all keys, then their sum of the values."""
    q, k, v = q.double(), k.double(), v.double()
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    a, b = FEATURES[feature](q), FEATURES[feature](k)
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.double)
    seen = seen.tril() if causal else seen
    count = seen.sum(1, keepdim=True)
    scale = (q.shape[-1] ** -0.5 if scale is None else scale) / (count if key_mean else 1)
    plain = scale * (a @ b.mT) * seen
    scores = plain if angles is None else scale * (turned(a, angles) @ turned(b, angles).mT) * seen
    s = (scores if norm == "printed" else plain).sum(-1, keepdim=True)
    gain = {"mala": 1 + 1 / (s + eps), "linear": 1 / (s + eps), "inline": torch.ones_like(s)}[rule]
    shift = {"mala": s, "linear": 0 * s, "inline": s - 1}[rule]
    if norm == "balanced":
        shift = gain * scores.sum(-1, keepdim=True) - 1
    return ((gain * scores - shift * seen / count) @ v + local) * gate
