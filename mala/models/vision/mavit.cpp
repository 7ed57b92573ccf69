// MAViT as published.
#include "mala/models/vision/mavit.h"

#include "mala/models/initialize.h"
#include "mala/nn/drop_path.h"
#include "mala/nn/recompute.h"
#include "mala/nn/rope.h"

namespace mala::models {
namespace {

int64_t count_blocks(const MavitConfig& config) {
  int64_t count = 0;
  for (const MavitStage& stage : config.stages) count += stage.depth;
  return count;
}

// `first` is the number of blocks in the stages before.
std::vector<nn::BlockOptions> block_options(const MavitConfig& config, const MavitStage& stage,
                                            int64_t first) {
  std::vector<nn::BlockOptions> options;
  for (int64_t i = 0; i < stage.depth; ++i) {
    options.push_back(
        {.dim = stage.dim,
         .heads = stage.heads,
         .hidden = static_cast<int64_t>(config.mlp_ratio * static_cast<double>(stage.dim)),
         .mixer = stage.mixer,
         .layer_scale = stage.layer_scale,
         .drop_path = nn::drop_path_of(first + i, count_blocks(config), config.drop_path)});
  }
  return options;
}

}  // namespace

StageImpl::StageImpl(const std::vector<nn::BlockOptions>& options, int64_t next_dim) {
  const int64_t dim = options.front().dim;
  register_module("RoPE", nn::Rope(dim / options.front().heads));
  torch::nn::ModuleList list;
  for (const nn::BlockOptions& block : options) {
    blocks.emplace_back(block);
    list->push_back(blocks.back());
  }
  register_module("blocks", list);
  if (next_dim > 0) downsample = register_module("downsample", nn::Downsample(dim, next_dim));
}

Tensor StageImpl::forward(Tensor pixels) {
  for (nn::Block& block : blocks) {
    auto forward = [block](const Tensor& x) mutable { return block->forward(x); };
    pixels = keeps_activations ? forward(pixels) : nn::recompute(*block, forward, pixels);
  }
  return downsample ? downsample->forward(pixels) : pixels;
}

MavitImpl::MavitImpl(const MavitConfig& config)
    : patch_embed(config.stages[0].dim, config.stem_stride),
      proj(nn::pointwise(config.stages.back().dim, config.projection)),
      head(nn::pointwise(config.projection, config.classes)),
      norm(config.projection),
      config_(config) {
  register_module("patch_embed", patch_embed);
  torch::nn::ModuleList list;
  int64_t first = 0;
  for (size_t i = 0; i < config.stages.size(); ++i) {
    const int64_t next_dim = i + 1 < config.stages.size() ? config.stages[i + 1].dim : 0;
    layers.emplace_back(block_options(config, config.stages[i], first), next_dim);
    list->push_back(layers.back());
    first += config.stages[i].depth;
  }
  register_module("layers", list);
  register_module("proj", proj);
  register_module("norm", norm);
  register_module("head", head);
  initialize(*this);
}

Tensor MavitImpl::forward(const Tensor& images) {
  Tensor x = patch_embed->forward(images);
  for (Stage& stage : layers) x = stage->forward(x);
  x = torch::silu(norm->forward(nn::as_image(nn::project(proj, x))));
  return nn::project(head, x.mean({2, 3}));
}

}  // namespace mala::models
