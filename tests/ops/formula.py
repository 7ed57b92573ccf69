"""The operator as a plain PyTorch formula over the full matrix of weights, in any dtype."""

import torch


def feature_map(name, x):
    if name == "elu1":
        return x.clamp(min=0) + x.clamp(max=0).exp()
    return {"relu": torch.relu, "exp": torch.exp, "identity": lambda y: y}[name](x)


def line_angles(tokens, dim, offset=0):
    """1d RoPE: (tokens, dim / 2), in double."""
    frequencies = 10000.0 ** (-2 * torch.arange(dim // 2, dtype=torch.double) / dim)
    return torch.outer(torch.arange(tokens, dtype=torch.double) + offset, frequencies)


def grid_angles(tokens, dim, width, offset=0):
    """2d RoPE: the first half of the pairs turns with the row, the second with the column."""
    quarter = dim // 4
    frequencies = 10000.0 ** (-torch.arange(quarter, dtype=torch.double) / (quarter - 1))
    position = torch.arange(tokens) + offset
    rows, columns = (position // width).double(), (position % width).double()
    return torch.cat([torch.outer(rows, frequencies), torch.outer(columns, frequencies)], dim=1)


def rotate(x, table):
    """Pairs are neighbours: (x0, x1) -> (x0 cos - x1 sin, x1 cos + x0 sin)."""
    cos, sin = (t.to(x.dtype) for t in table)
    x0, x1 = x[..., 0::2], x[..., 1::2]
    return torch.stack([x0 * cos - x1 * sin, x1 * cos + x0 * sin], dim=-1).flatten(-2)


def tables(q, k, rope="none", rope_offset=(0, 0), grid_width=(0, 0), rope_table=()):
    """(cos, sin) for q and for k, or None."""
    if rope == "none":
        return None
    if rope == "table":
        given = list(rope_table) * (1 if len(rope_table) == 4 else 2)
        rows = [x.shape[-2] for x in (q, q, k, k)]  # a table may have more
        given = [table[:count] for table, count in zip(given, rows)]
        return given[:2], given[2:]
    result = []
    for side, x in enumerate([q, k]):
        tokens, dim = x.shape[-2:]
        if rope == "1d":
            angles = line_angles(tokens, dim, rope_offset[side])
        else:
            angles = grid_angles(tokens, dim, grid_width[side], rope_offset[side])
        result.append((angles.cos(), angles.sin()))
    return result


def attention(q, k, v, *, causal=False, local=None, gate=None, rule="mala", norm=None,
              feature="elu1", key_mean=True, scale=None, eps=1e-6, **rope):
    """Causal: query i sees the keys up to i, as far as there are any."""
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=q.dtype)  # (N, M)
    seen = seen.tril() if causal else seen
    keys = seen.sum(-1, keepdim=True)  # (N, 1)
    a, b = feature_map(feature, q), feature_map(feature, k)
    turned = tables(q, k, **rope)
    a_turned, b_turned = (rotate(a, turned[0]), rotate(b, turned[1])) if turned else (a, b)

    c = (q.shape[-1] ** -0.5 if scale is None else scale) * (1 / keys if key_mean else 1)
    scores = c * a_turned @ b_turned.transpose(-1, -2) * seen  # (B, H, N, M)
    r = scores.sum(-1, keepdim=True)
    s = (c * a @ b.transpose(-1, -2) * seen).sum(-1, keepdim=True)  # (B, H, N, 1)
    norm = norm or ("balanced" if causal and rule == "mala" else "published")
    if norm == "printed":
        s = r

    gain = {"mala": 1 + 1 / (s + eps), "linear": 1 / (s + eps), "inline": torch.ones_like(s)}[rule]
    shift = {"mala": s, "linear": torch.zeros_like(s), "inline": s - 1}[rule]
    if norm == "balanced":
        shift = gain * r - 1

    out = (gain * scores - shift * seen / keys) @ v
    out = out if local is None else out + local
    return out if gate is None else out * gate


def spans(q, k, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    """Each sequence as (batch entry, its queries, its keys)."""
    if cu_seqlens_q is not None:
        begins = zip(cu_seqlens_q, cu_seqlens_q[1:], cu_seqlens_k, cu_seqlens_k[1:])
        return [(0, slice(a, b), slice(c, d)) for a, b, c, d in begins]
    counts = [k.shape[2]] * k.shape[0] if key_lengths is None else key_lengths
    return [(i, slice(0, q.shape[2]), slice(0, count)) for i, count in enumerate(counts)]


def attention_by_sequence(q, k, v, *, lengths, local=None, gate=None, grid_widths=None, **options):
    """A loop over sequences; the heads of k and v are repeated for the group they serve."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    outs = []
    for i, (entry, queries, keys) in enumerate(spans(q, k, **lengths)):
        part = lambda x, tokens: None if x is None else x[entry : entry + 1, :, tokens]
        if grid_widths is not None:
            options["grid_width"] = grid_widths[i].expand(2).tolist()
        tail = {"local": part(local, queries), "gate": part(gate, queries)}
        outs.append(attention(part(q, queries), part(k, keys), part(v, keys), **tail, **options))
    return torch.cat(outs, dim=2 if "cu_seqlens_q" in lengths else 0)
