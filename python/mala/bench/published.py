"""MAViT with the published block structure: channels first, every step an operator of torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mala.models.mavit import Mavit
from mala.nn.attention2d import MalaAttention2d
from mala.nn.block import Block, ChannelNorm, ConvFfn
from mala.nn.rope import grid_table, rotate


def attend(self: MalaAttention2d, image: Tensor) -> Tensor:
    """(B, C, H, W), as the formula is printed in the released code."""
    _, dim, rows, columns = image.shape
    q, k, v, gate = _project(self.qkvo, image).split(dim, 1)
    local = self.lepe(v)
    q, k, v = (x.unflatten(1, (self.heads, -1)).flatten(3).transpose(2, 3) for x in (q, k, v))
    table = grid_table(rows, columns, dim // self.heads, q)
    mixed = _softmax(q, k, v, table) if self.mixer == "softmax" else _mala(q, k, v, table)
    mixed = mixed.transpose(2, 3).reshape(image.shape)
    return _project(self.proj, (mixed + local) * gate)


def _softmax(q: Tensor, k: Tensor, v: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    scores = rotate(q, table) @ rotate(k, table).transpose(2, 3) * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v


def _mala(q: Tensor, k: Tensor, v: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    scale = q.shape[-1] ** -0.5
    q, k = F.elu(q) + 1, F.elu(k) + 1
    z = q @ k.mean(2, keepdim=True).transpose(2, 3) * scale  # (B, H, N, 1)
    half = (scale / k.shape[2]) ** 0.5
    kv = (rotate(k, table).transpose(2, 3) * half) @ (v * half)
    return rotate(q, table) @ kv * (1 + 1 / (z + 1e-6)) - z * v.mean(2, keepdim=True)


class PublishedBlock(nn.Module):
    """A block with the weights of another, in the published order of layouts."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block

    def forward(self, image: Tensor) -> Tensor:
        block = self.block
        x = image + block.pos(image)
        x = x + block.gamma_1 * attend(block.attn, _norm(block.norm1, x))
        return x + block.gamma_2 * _feed(block.ffn, _norm(block.norm2, x))


def _norm(norm: ChannelNorm, image: Tensor) -> Tensor:
    return norm.norm(image.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2).contiguous()


def _project(layer: nn.Conv2d, image: Tensor) -> Tensor:
    """Not as the layer does it: the released code convolves."""
    return F.conv2d(image, layer.weight, layer.bias)


def _feed(ffn: ConvFfn, image: Tensor) -> Tensor:
    hidden = F.gelu(_project(ffn.fc1, image))
    return _project(ffn.fc2, hidden + ffn.dwconv(hidden))


class PublishedMavit(nn.Module):
    """The same weights, without channels-last memory, our operator or fused softmax."""

    def __init__(self, model: Mavit) -> None:
        super().__init__()
        self.model = model
        self.stages = nn.ModuleList(
            nn.ModuleList(PublishedBlock(block) for block in stage.blocks) for stage in model.layers)

    def forward(self, images: Tensor) -> Tensor:
        x = self.model.patch_embed.proj(images)
        for blocks, stage in zip(self.stages, self.model.layers):
            for block in blocks:
                x = block(x)
            x = x if stage.downsample is None else stage.downsample(x)
        return self.model.forward_head(x.contiguous(memory_format=torch.contiguous_format))
