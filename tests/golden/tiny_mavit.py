#!/usr/bin/env python3
"""Writes tiny_mavit_*.safetensors: a small MAViT's weights, pictures, logits and gradients.

The model is written from the formulas of the paper in plain PyTorch and float64, and uses nothing
of this project, so that an error in both would have to be made twice. Attention is the full map of
weights. Run it again only to change the model; the C++ tests read what it wrote.

    .venv/bin/python tests/golden/tiny_mavit.py
"""

import math
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

DIMS, HEADS, DEPTHS = (8, 8, 16, 16), (1, 1, 2, 1), (1, 1, 2, 1)
RATIO, PROJECTION, CLASSES = 3.5, 20, 7
MIXERS = {"hybrid": "mala mala softmax softmax".split(), "linear": "inline linear mala linear".split()}
FOLDER = Path(__file__).parent


def make_weights():
    """Values that make every term count: no scale is one, no bias zero, no variance flat."""
    generator = torch.Generator().manual_seed(5)
    weights = {}

    def draw(name, *shape, center=0.0, spread=0.3):
        value = center + spread * torch.randn(*shape, generator=generator)
        weights[name] = value.float()

    def conv(name, into, out, size, groups=1):
        fan = into // groups * size * size
        draw(f"{name}.weight", out, into // groups, size, size, spread=fan**-0.5)
        draw(f"{name}.bias", out, spread=0.1)

    def norm(name, dim, has_statistics):
        draw(f"{name}.weight", dim, center=1.0, spread=0.1)
        draw(f"{name}.bias", dim, spread=0.1)
        if has_statistics:
            draw(f"{name}.running_mean", dim, spread=0.1)
            weights[f"{name}.running_var"] = 0.5 + torch.rand(dim, generator=generator)
            weights[f"{name}.num_batches_tracked"] = torch.tensor(3)

    widths = (3, DIMS[0] // 2, DIMS[0] // 2, DIMS[0] // 2, DIMS[0])
    for i in range(4):
        conv(f"patch_embed.proj.{3 * i}", widths[i], widths[i + 1], 3)
        norm(f"patch_embed.proj.{3 * i + 1}", widths[i + 1], True)
    for i, dim in enumerate(DIMS):
        angles = 10000.0 ** -torch.linspace(0, 1, dim // HEADS[i] // 4)
        weights[f"layers.{i}.RoPE.angle"] = torch.stack([angles, angles], 1).flatten()
        hidden = int(RATIO * dim)
        for j in range(DEPTHS[i]):
            block = f"layers.{i}.blocks.{j}"
            norm(f"{block}.norm1.norm", dim, False)
            conv(f"{block}.attn.qkvo", dim, 4 * dim, 1)
            conv(f"{block}.attn.lepe", dim, dim, 5, groups=dim)
            conv(f"{block}.attn.proj", dim, dim, 1)
            norm(f"{block}.norm2.norm", dim, False)
            conv(f"{block}.ffn.fc1", dim, hidden, 1)
            conv(f"{block}.ffn.fc2", hidden, dim, 1)
            conv(f"{block}.ffn.dwconv", hidden, hidden, 3, groups=hidden)
            conv(f"{block}.pos", dim, dim, 3, groups=dim)
            draw(f"{block}.gamma_1", 1, dim, 1, 1, center=1.0, spread=0.2)
            draw(f"{block}.gamma_2", 1, dim, 1, 1, center=1.0, spread=0.2)
        if i < 3:
            conv(f"layers.{i}.downsample.reduction", dim, DIMS[i + 1], 3)
            norm(f"layers.{i}.downsample.norm", DIMS[i + 1], True)
    conv("proj", DIMS[3], PROJECTION, 1)
    norm("norm", PROJECTION, True)
    conv("head", PROJECTION, CLASSES, 1)
    return weights


class Model:
    """The forward pass as a function of a dictionary of weights; x is (b, c, h, w) throughout."""

    def __init__(self, weights, mixers, training):
        self.weights, self.mixers, self.training = weights, mixers, training

    def conv(self, name, x, stride=1):
        weight = self.weights[f"{name}.weight"]
        groups = x.shape[1] // weight.shape[1]
        padding = weight.shape[-1] // 2
        return F.conv2d(x, weight, self.weights[f"{name}.bias"], stride, padding, groups=groups)

    def batch_norm(self, name, x):
        w = self.weights
        if self.training:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
        else:
            mean, variance = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        per_channel = lambda v: v.view(1, -1, 1, 1)
        x = (x - per_channel(mean)) / per_channel(variance + 1e-5).sqrt()
        return x * per_channel(w[f"{name}.weight"]) + per_channel(w[f"{name}.bias"])

    def layer_norm(self, name, x):
        variance, mean = torch.var_mean(x, 1, unbiased=False, keepdim=True)
        x = (x - mean) / (variance + 1e-6).sqrt()
        per_channel = lambda v: v.view(1, -1, 1, 1)
        weight, bias = (self.weights[f"{name}.norm.{part}"] for part in ("weight", "bias"))
        return x * per_channel(weight) + per_channel(bias)

    def attend(self, name, x, heads, mixer):
        b, c, h, w = x.shape
        d, n = c // heads, h * w
        packed = self.conv(f"{name}.qkvo", x)
        q, k, v, gate = packed.split(c, 1)
        local = self.conv(f"{name}.lepe", v)
        q, k, v = (t.reshape(b, heads, d, n).transpose(2, 3) for t in (q, k, v))
        maps = softmax_map if mixer == "softmax" else linear_map
        mixed = maps(q, k, (h, w), mixer) @ v
        mixed = mixed.transpose(2, 3).reshape(b, c, h, w)
        return self.conv(f"{name}.proj", (mixed + local) * gate)

    def feed_forward(self, name, x):
        x = gelu(self.conv(f"{name}.fc1", x))
        return self.conv(f"{name}.fc2", x + self.conv(f"{name}.dwconv", x))

    def block(self, name, x, heads, mixer):
        x = x + self.conv(f"{name}.pos", x)
        attended = self.attend(f"{name}.attn", self.layer_norm(f"{name}.norm1", x), heads, mixer)
        x = x + self.weights[f"{name}.gamma_1"] * attended
        fed = self.feed_forward(f"{name}.ffn", self.layer_norm(f"{name}.norm2", x))
        return x + self.weights[f"{name}.gamma_2"] * fed

    def __call__(self, x):
        for i, stride in enumerate((2, 1, 1, 2)):
            x = gelu(x) if i else x
            x = self.conv(f"patch_embed.proj.{3 * i}", x, stride)
            x = self.batch_norm(f"patch_embed.proj.{3 * i + 1}", x)
        for i, depth in enumerate(DEPTHS):
            for j in range(depth):
                x = self.block(f"layers.{i}.blocks.{j}", x, HEADS[i], self.mixers[i])
            if i < 3:
                x = self.conv(f"layers.{i}.downsample.reduction", x, 2)
                x = self.batch_norm(f"layers.{i}.downsample.norm", x)
        x = self.batch_norm("norm", self.conv("proj", x))
        x = (x * torch.sigmoid(x)).mean((2, 3), keepdim=True)
        return self.conv("head", x).flatten(1)


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def rotation_matrices(size, d):
    """(n, d, d): the rotation of every token, row by row."""
    quarter = d // 4
    matrices = torch.zeros(size[0] * size[1], d, d, dtype=torch.float64)
    for token in range(len(matrices)):
        for pair in range(d // 2):
            place = token // size[1] if pair < quarter else token % size[1]
            angle = place * 10000.0 ** (-(pair % quarter) / (quarter - 1))
            a, b = 2 * pair, 2 * pair + 1
            matrices[token, a, a] = matrices[token, b, b] = math.cos(angle)
            matrices[token, a, b], matrices[token, b, a] = -math.sin(angle), math.sin(angle)
    return matrices


def scores(q, k, size):
    """d^(-1/2) (R_i q_i) . (R_j k_j)"""
    turns = rotation_matrices(size, q.shape[-1])
    turned = [torch.einsum("nij,bhnj->bhni", turns, x) for x in (q, k)]
    return turned[0] @ turned[1].transpose(2, 3) * q.shape[-1] ** -0.5


def softmax_map(q, k, size, _):
    exponentials = torch.exp(scores(q, k, size))
    return exponentials / exponentials.sum(-1, keepdim=True)


def linear_map(q, k, size, mixer):
    """The magnitude z is that of features before they are rotated, as released."""
    q, k = (torch.where(x > 0, x + 1, torch.exp(x)) for x in (q, k))
    n = q.shape[2]
    z = (q @ k.transpose(2, 3)).mean(-1, keepdim=True) * q.shape[-1] ** -0.5
    x = scores(q, k, size) / n
    if mixer == "linear":
        return x / (z + 1e-6)
    if mixer == "inline":
        return x - z / n + 1 / n
    return (1 + 1 / (z + 1e-6)) * x - z / n


def answers(weights, images):
    """Logits of every set of mixers; for the released one also the gradients of training."""
    exact = {name: value.double() for name, value in weights.items()}
    result = {f"logits.{name}": Model(exact, mixers, False)(images.double())
              for name, mixers in MIXERS.items()}
    fixed = ("running_mean", "running_var", "num_batches_tracked", "angle")
    trained = {n: v.requires_grad_() for n, v in exact.items() if not n.endswith(fixed)}
    for name, mixers in MIXERS.items():
        inputs = images.double().requires_grad_()
        logits = Model(exact, mixers, True)(inputs)
        loss = F.cross_entropy(logits, torch.arange(len(images)) % CLASSES)
        gradients = torch.autograd.grad(loss, [inputs, *trained.values()])
        result[f"loss.{name}"] = loss
        for key, gradient in zip(["images", *trained], gradients):
            result[f"gradient.{name}.{key}"] = gradient
    return {name: value.detach().float().contiguous() for name, value in result.items()}


def main():
    weights = make_weights()
    images = torch.randn(2, 3, 24, 40, generator=torch.Generator().manual_seed(6))
    save_file(weights, FOLDER / "tiny_mavit_weights.safetensors")
    save_file({"images": images, **answers(weights, images)},
              FOLDER / "tiny_mavit_answers.safetensors")


if __name__ == "__main__":
    main()
