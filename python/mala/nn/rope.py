"""Rotations of tokens on a grid, as cosines and sines, for softmax: our operator makes its own."""

import torch
from torch import Tensor

_MOST_TABLES = 64
_tables: dict = {}


def grid_angles(head_dim: int) -> Tensor:
    """The angle of each pair of neighbours for a step of one, (D / 4), in double."""
    exponents = torch.linspace(0, 1, head_dim // 4, dtype=torch.float64)
    return 10000.0 ** -exponents


def grid_table(rows: int, columns: int, head_dim: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """(cos, sin), each (rows * columns, D / 2), where `like` is. Models ask for few, and often."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    if torch.compiler.is_compiling():  # the compiler keeps what is constant
        return _make_table(rows, columns, head_dim, like.device, dtype)
    key = (rows, columns, head_dim, like.device, dtype)
    table = _tables.get(key)
    if table is None:
        with torch.inference_mode(False):  # a training that follows must be able to use it
            table = _make_table(rows, columns, head_dim, like.device, dtype)
        if type(table[0]) is not Tensor:
            return table  # a tracer's own tensors are of no use to others
        if len(_tables) >= _MOST_TABLES:
            _tables.clear()
        _tables[key] = table
    return table


def _make_table(rows: int, columns: int, head_dim: int, device: torch.device,
                dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    angles = grid_angles(head_dim).to(device)
    by_row = torch.arange(rows, dtype=torch.float64, device=device)[:, None] * angles
    by_column = torch.arange(columns, dtype=torch.float64, device=device)[:, None] * angles
    shape = (rows, columns, head_dim // 4)
    turns = torch.cat([by_row[:, None].expand(shape), by_column[None].expand(shape)], -1)
    turns = turns.flatten(0, 1)
    return turns.cos().to(dtype), turns.sin().to(dtype)


def rotate(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Turns the neighbours of (..., N, D) by (N, D / 2), in float32 at least."""
    cos, sin = table
    pairs = x.unflatten(-1, (-1, 2)).to(cos.dtype)
    x0, x1 = pairs[..., 0], pairs[..., 1]
    turned = torch.stack([x0 * cos - x1 * sin, x1 * cos + x0 * sin], -1).flatten(-2)
    return turned.to(x.dtype)
