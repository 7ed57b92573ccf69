// Walks the stages and stops at the last attention of each.
#include "mala/models/vision/probe.h"

#include "mala/core/error.h"

namespace mala::models {
namespace {

StageProbe probe_attention(nn::BlockImpl& block, const Tensor& pixels) {
  const nn::PackedParts parts = block.attn->parts_of(block.norm1->forward(block.placed(pixels)));
  const auto in_heads = [&](const Tensor& part) {
    return nn::split_heads(part.flatten(1, 2), block.attn->heads()).squeeze(0);
  };
  return {.q = in_heads(parts.q),
          .k = in_heads(parts.k),
          .v = in_heads(parts.v),
          .grid = nn::grid_of(pixels),
          .mixer = block.attn->mixer()};
}

}  // namespace

std::vector<StageProbe> probe(MavitImpl& model, const Tensor& image) {
  nn::check_images(image);
  check(image.size(0) == 1, "probe", "got ", image.size(0), " pictures and needs one");
  const torch::NoGradGuard no_gradients;
  std::vector<StageProbe> stages;
  Tensor x = model.patch_embed->forward(image);
  for (Stage& stage : model.layers) {
    Tensor inside = x;
    for (size_t i = 0; i + 1 < stage->blocks.size(); ++i)
      inside = stage->blocks[i]->forward(inside);
    stages.push_back(probe_attention(*stage->blocks.back(), inside));
    inside = stage->blocks.back()->forward(inside);
    x = stage->downsample ? stage->downsample->forward(inside) : inside;
  }
  return stages;
}

nn::MapScores score(const StageProbe& stage, const Tensor& queries) {
  return nn::score(stage.q, stage.k, queries, stage.grid);
}

}  // namespace mala::models
