// DeiT as published, with any mixer in place of its attention: the same weights, another rule.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mala/nn/mixer.h"

namespace mala::models {

using torch::Tensor;

struct DeitConfig {
  std::string name;
  int64_t dim = 0, heads = 0;
  nn::Mixer mixer = nn::Mixer::kSoftmax;
  int64_t depth = 12;
  int64_t patch = 16;
  int64_t grid = 14;  // patches on a side that the learned positions are for
  double drop_path = 0.1;
  int64_t classes = 1000;
};

// deit_t and deit_s, and vit_n of the same kind for pictures of 32 pixels.
std::span<const DeitConfig> deit_configs();

// Throws mala::Error that lists the names for any other.
const DeitConfig& deit_config(std::string_view name);

class DeitAttentionImpl : public torch::nn::Module {
 public:
  DeitAttentionImpl(int64_t dim, int64_t heads, nn::Mixer mixer);

  Tensor forward(const Tensor& tokens);

 private:
  torch::nn::Linear qkv_, proj_;
  int64_t heads_;
  nn::Mixer mixer_;
};
TORCH_MODULE(DeitAttention);

class DeitFfnImpl : public torch::nn::Module {
 public:
  DeitFfnImpl(int64_t dim, int64_t hidden);

  Tensor forward(const Tensor& tokens);

 private:
  torch::nn::Linear fc1_, fc2_;
};
TORCH_MODULE(DeitFfn);

class DeitBlockImpl : public torch::nn::Module {
 public:
  DeitBlockImpl(const DeitConfig& config, double drop_path);

  Tensor forward(const Tensor& tokens);

 private:
  torch::nn::LayerNorm norm1_, norm2_;
  DeitAttention attn_;
  DeitFfn mlp_;
  double drop_path_;
};
TORCH_MODULE(DeitBlock);

class DeitImpl : public torch::nn::Module {
 public:
  explicit DeitImpl(const DeitConfig& config);

  // (B, 3, H, W) of any size -> (B, classes). Positions of other sizes are interpolated.
  Tensor forward(const Tensor& images);

  bool keeps_activations = true;  // false: of a block only its input, the rest is reckoned twice

 private:
  // (1, 1 + height * width, C)
  Tensor positions(nn::GridSize grid) const;

  DeitConfig config_;
  torch::nn::Conv2d patches_;
  std::vector<DeitBlock> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
  Tensor class_token_, positions_;
};
TORCH_MODULE(Deit);

}  // namespace mala::models
