// DeiT with the names of released checkpoints.
#include "mala/models/vision/deit.h"

#include <torch/nn/functional/upsampling.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <array>

#include "mala/core/error.h"
#include "mala/models/initialize.h"
#include "mala/nn/drop_path.h"
#include "mala/nn/recompute.h"

namespace mala::models {
namespace {

const std::array<DeitConfig, 3> kDeitConfigs{{{.name = "vit_n",
                                               .dim = 128,
                                               .heads = 2,
                                               .depth = 6,
                                               .patch = 2,
                                               .grid = 16,
                                               .drop_path = 0,
                                               .classes = 10},
                                              {.name = "deit_t", .dim = 192, .heads = 3},
                                              {.name = "deit_s", .dim = 384, .heads = 6}}};

torch::nn::LayerNorm token_norm(int64_t dim) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim}).eps(1e-6));
}

}  // namespace

std::span<const DeitConfig> deit_configs() { return kDeitConfigs; }

const DeitConfig& deit_config(std::string_view name) {
  for (const DeitConfig& config : kDeitConfigs) {
    if (config.name == name) return config;
  }
  throw Error(str("[deit_config] no model '", name, "'; there are vit_n, deit_t and deit_s"));
}

DeitAttentionImpl::DeitAttentionImpl(int64_t dim, int64_t heads, nn::Mixer mixer)
    : qkv_(dim, 3 * dim), proj_(dim, dim), heads_(heads), mixer_(mixer) {
  nn::check_heads("DeitAttention", dim, heads);
  register_module("qkv", qkv_);
  register_module("proj", proj_);
}

Tensor DeitAttentionImpl::forward(const Tensor& tokens) {
  const auto parts = qkv_->forward(tokens).chunk(3, -1);
  return proj_->forward(nn::mix(mixer_, {.q = nn::split_heads(parts[0], heads_),
                                         .k = nn::split_heads(parts[1], heads_),
                                         .v = nn::split_heads(parts[2], heads_)}));
}

DeitFfnImpl::DeitFfnImpl(int64_t dim, int64_t hidden) : fc1_(dim, hidden), fc2_(hidden, dim) {
  register_module("fc1", fc1_);
  register_module("fc2", fc2_);
}

Tensor DeitFfnImpl::forward(const Tensor& tokens) {
  return fc2_->forward(torch::gelu(fc1_->forward(tokens)));
}

DeitBlockImpl::DeitBlockImpl(const DeitConfig& config, double drop_path)
    : norm1_(token_norm(config.dim)),
      norm2_(token_norm(config.dim)),
      attn_(config.dim, config.heads, config.mixer),
      mlp_(config.dim, 4 * config.dim),
      drop_path_(drop_path) {
  register_module("norm1", norm1_);
  register_module("attn", attn_);
  register_module("norm2", norm2_);
  register_module("mlp", mlp_);
}

Tensor DeitBlockImpl::forward(const Tensor& tokens) {
  const auto add = [&](const Tensor& x, const Tensor& branch) {
    return x + nn::drop_path(branch, drop_path_, is_training());
  };
  const Tensor x = add(tokens, attn_->forward(norm1_->forward(tokens)));
  return add(x, mlp_->forward(norm2_->forward(x)));
}

DeitImpl::DeitImpl(const DeitConfig& config)
    : config_(config),
      patches_(torch::nn::Conv2dOptions(3, config.dim, config.patch).stride(config.patch)),
      norm_(token_norm(config.dim)),
      head_(config.dim, config.classes) {
  const int64_t tokens = 1 + config.grid * config.grid;
  class_token_ = register_parameter("cls_token", torch::randn({1, 1, config.dim}) * 0.02);
  positions_ = register_parameter("pos_embed", torch::randn({1, tokens, config.dim}) * 0.02);
  auto patch_embed = std::make_shared<torch::nn::Module>();
  patch_embed->register_module("proj", patches_);
  register_module("patch_embed", patch_embed);
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < config.depth; ++i) {
    blocks_.emplace_back(config, nn::drop_path_of(i, config.depth, config.drop_path));
    list->push_back(blocks_.back());
  }
  register_module("blocks", list);
  register_module("norm", norm_);
  register_module("head", head_);
  initialize(*this);
}

Tensor DeitImpl::positions(nn::GridSize grid) const {
  if (grid.height == config_.grid && grid.width == config_.grid) return positions_;
  const Tensor on_grid = positions_.slice(1, 1).unflatten(1, {config_.grid, config_.grid});
  const auto size = std::vector<int64_t>{grid.height, grid.width};
  const auto options = torch::nn::functional::InterpolateFuncOptions()
                           .size(size)
                           .mode(torch::kBicubic)
                           .align_corners(false);
  const Tensor resized = torch::nn::functional::interpolate(nn::as_image(on_grid), options);
  return torch::cat({positions_.slice(1, 0, 1), nn::as_pixels(resized).flatten(1, 2)}, 1);
}

Tensor DeitImpl::forward(const Tensor& images) {
  check(images.dim() == 4 && images.size(1) == 3 && images.size(2) >= config_.patch &&
            images.size(3) >= config_.patch,
        "Deit", "images of shape ", c10::str(images.sizes()),
        "; needs (batch, 3, height, width) of ", config_.patch, " pixels or more");
  const Tensor pixels = nn::as_pixels(patches_->forward(images));
  const Tensor first = class_token_.expand({images.size(0), 1, config_.dim});
  Tensor x = torch::cat({first, pixels.flatten(1, 2)}, 1) + positions(nn::grid_of(pixels));
  for (DeitBlock& block : blocks_) {
    auto run = [block](const Tensor& tokens) mutable { return block->forward(tokens); };
    x = keeps_activations ? run(x) : nn::recompute(*block, run, x);
  }
  return head_->forward(norm_->forward(x).select(1, 0));
}

}  // namespace mala::models
