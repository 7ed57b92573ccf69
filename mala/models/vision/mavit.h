// MAViT: patches, four stages, a head. Names of modules are those of released checkpoints.
#pragma once

#include <string>
#include <vector>

#include "mala/models/vision/config.h"
#include "mala/nn/block.h"
#include "mala/nn/patches.h"

namespace mala::models {

using torch::Tensor;

// Blocks of one width, and the step to the next stage where there is one.
class StageImpl : public torch::nn::Module {
 public:
  // `next_dim` is 0 for the last stage.
  StageImpl(const std::vector<nn::BlockOptions>& options, int64_t next_dim);

  Tensor forward(Tensor pixels);

  std::vector<nn::Block> blocks;
  bool keeps_activations = true;  // false: of a block only its input, the rest is reckoned twice
  nn::Downsample downsample = nullptr;
};
TORCH_MODULE(Stage);

class MavitImpl : public torch::nn::Module {
 public:
  explicit MavitImpl(const MavitConfig& config);

  // (B, 3, H, W) of any size -> (B, classes)
  Tensor forward(const Tensor& images);

  const MavitConfig& config() const { return config_; }

  nn::PatchEmbed patch_embed;
  std::vector<Stage> layers;
  torch::nn::Conv2d proj, head;
  nn::BatchNorm norm;

 private:
  MavitConfig config_;
};
TORCH_MODULE(Mavit);

}  // namespace mala::models
