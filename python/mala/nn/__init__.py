"""Layers as ordinary modules: attention over sequences and over images, and the parts of MAViT."""

from mala.nn.attention import MalaAttention
from mala.nn.attention2d import MalaAttention2d
from mala.nn.block import Block, ChannelNorm, ConvFfn
from mala.nn.mixers import MIXERS, mix
from mala.nn.patches import Downsample, PatchEmbed
from mala.nn.pixels import Pointwise

__all__ = ["MIXERS", "Block", "ChannelNorm", "ConvFfn", "Downsample", "MalaAttention",
           "MalaAttention2d", "PatchEmbed", "Pointwise", "mix"]
