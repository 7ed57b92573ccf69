"""MAViT: patches, four stages, a head. Names of modules are those of released checkpoints."""

from typing import Optional, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from mala.models.config import MavitConfig
from mala.nn.block import Block
from mala.nn.patches import Downsample, PatchEmbed
from mala.nn.rope import grid_angles


class Angles(nn.Module):
    """What checkpoints hold of RoPE, each angle twice. Nothing is reckoned from this copy, which a
    model in bfloat16 would have rounded."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.register_buffer("angle", grid_angles(head_dim).float().repeat_interleave(2))


class Stage(nn.Module):
    """Blocks of one width, and the step to the next stage where there is one."""

    def __init__(self, blocks: list[Block], head_dim: int,
                 downsample: Optional[Downsample]) -> None:
        super().__init__()
        self.RoPE = Angles(head_dim)
        self.blocks = nn.ModuleList(blocks)
        self.grad_checkpointing = False
        self.downsample = downsample

    def run_blocks(self, image: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)"""
        for block in self.blocks:
            if self.grad_checkpointing and self.training and torch.is_grad_enabled():
                image = checkpoint(block, image, use_reentrant=False)
            else:
                image = block(image)
        return image

    def forward(self, image: Tensor) -> Tensor:
        image = self.run_blocks(image)
        return image if self.downsample is None else self.downsample(image)


class Mavit(nn.Module):
    """(B, 3, H, W) of any size -> (B, num_classes), with timm's surface."""

    def __init__(self, config: MavitConfig, in_chans: int = 3) -> None:
        super().__init__()
        self.config = config
        self.num_classes = config.num_classes
        self.num_features = config.dims[-1]
        self.head_hidden_size = config.projection
        self.patch_embed = PatchEmbed(config.dims[0], config.stem_stride, in_chans)
        self.layers = nn.ModuleList(make_stages(config))
        self.proj = nn.Conv2d(config.dims[-1], config.projection, 1)
        self.norm = nn.BatchNorm2d(config.projection)
        self.head: nn.Module = make_head(config.projection, config.num_classes)
        self.feature_info = [
            {"num_chs": dim, "reduction": config.stem_stride * 2**i, "module": f"layers.{i}"}
            for i, dim in enumerate(config.dims)
        ]
        self.apply(initialize)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, C, H / 32, W / 32), rounded up; for mavit_n H / 16."""
        x = self.patch_embed(images)
        for stage in self.layers:
            x = stage(x)
        return x

    def forward_head(self, features: Tensor, pre_logits: bool = False) -> Tensor:
        """(B, C, h, w) -> (B, num_classes), or (B, head_hidden_size) before the classifier."""
        x = F.silu(self.norm(self.proj(features))).mean((2, 3), keepdim=True)  # (B, P, 1, 1)
        return (x if pre_logits else self.head(x)).flatten(1)

    def forward_intermediates(self, x: Tensor, indices: Union[None, int, list[int]] = None,
                              norm: bool = False, stop_early: bool = False,
                              output_fmt: str = "NCHW", intermediates_only: bool = False
                              ) -> Union[list[Tensor], tuple[Tensor, list[Tensor]]]:
        """What the stages give before the picture is halved, (B, C, H, W) each, as timm asks.

        Args:
            indices: of stages; a number is that many of the last ones, None all.
            norm: has no effect, as no norm follows a stage.
            stop_early: whether stages after the last wanted one are left out.
            output_fmt: "NCHW" alone.
            intermediates_only: whether the features of the last stage are not returned too.
        """
        if output_fmt != "NCHW":
            raise ValueError(f"output_fmt is '{output_fmt}'; only 'NCHW' is there")
        wanted = self._stage_indices(indices)
        maps = []
        x = self.patch_embed(x)
        for i, stage in enumerate(self.layers):
            x = stage.run_blocks(x)
            if i in wanted:
                maps.append(x)
            if stop_early and i == max(wanted):
                break
            x = x if stage.downsample is None else stage.downsample(x)
        return maps if intermediates_only else (x, maps)

    def prune_intermediate_layers(self, indices: Union[int, list[int]] = 1,
                                  prune_norm: bool = False, prune_head: bool = True) -> list[int]:
        """Drops the stages after the last wanted one, and the head."""
        wanted = self._stage_indices(indices)
        self.layers = self.layers[: max(wanted) + 1]
        if prune_head:
            self.proj, self.norm = nn.Identity(), nn.Identity()
            self.reset_classifier(0)
        return wanted

    def _stage_indices(self, indices: Union[None, int, list[int]]) -> list[int]:
        count = len(self.layers)
        if indices is None or isinstance(indices, int):
            last = count if indices is None else indices
            if not 1 <= last <= count:
                raise ValueError(f"the last {last} stages; there are {count}")
            indices = list(range(count))[-last:]
        wrong = [i for i in indices if not -count <= i < count]
        if wrong or not indices:
            raise ValueError(f"stages {indices}; there are {count}, numbered from 0")
        return sorted(i % count for i in indices)

    def reset_classifier(self, num_classes: int, global_pool: Optional[str] = None) -> None:
        """A new head for other classes; none for 0, so that features come out."""
        if global_pool not in (None, "avg"):
            raise ValueError(f"global_pool is '{global_pool}'; only 'avg' is there")
        self.num_classes = num_classes
        like = next(self.patch_embed.parameters())
        self.head = make_head(self.head_hidden_size, num_classes).to(like.device, like.dtype)
        self.head.apply(initialize)

    def get_classifier(self) -> nn.Module:
        return self.head

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Keeps of each block only its input for the gradient and reckons the rest again."""
        for stage in self.layers:
            stage.grad_checkpointing = enable

    def no_weight_decay(self) -> set[str]:
        """None beyond vectors and biases, which timm leaves out by itself; as published, layer
        scales are decayed."""
        return set()

    def group_matcher(self, coarse: bool = False) -> dict:
        """timm's groups of layers, for learning rates that fall with depth."""
        if coarse:
            return {"stem": r"^patch_embed", "blocks": [(r"^layers\.(\d+)", None),
                                                        (r"^(?:proj|norm)\.", (99999,))]}
        return {"stem": r"^patch_embed",
                "blocks": [(r"^layers\.(\d+)\.blocks\.(\d+)", None),
                           (r"^layers\.(\d+)\.downsample", (99998,)),  # behind all blocks
                           (r"^(?:proj|norm)\.", (99999,))]}


def make_stages(config: MavitConfig) -> list[Stage]:
    count = sum(config.depths)
    rates = [config.drop_path * i / (count - 1) if count > 1 else 0.0 for i in range(count)]
    stages = []
    for i, (dim, depth, heads) in enumerate(zip(config.dims, config.depths, config.heads)):
        first = sum(config.depths[:i])
        blocks = [Block(dim, heads, int(config.mlp_ratio * dim), config.mixers[i],
                        layer_scale=config.layer_scales[i], drop_path=rate)
                  for rate in rates[first : first + depth]]
        last = i + 1 == len(config.dims)
        stages.append(Stage(blocks, dim // heads,
                            None if last else Downsample(dim, config.dims[i + 1])))
    return stages


def make_head(dim: int, num_classes: int) -> nn.Module:
    if num_classes < 0:
        raise ValueError(f"{num_classes} classes; needs 1 or more, or 0 for features")
    return nn.Conv2d(dim, num_classes, 1) if num_classes else nn.Identity()


def initialize(module: nn.Module) -> None:
    """As published: convolutions normal with deviation 0.02, biases 0, norms 1 and 0."""
    if isinstance(module, nn.Conv2d):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
