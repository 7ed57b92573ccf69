// ResNet for small pictures as published (depth 6n + 2, shortcuts without weights): what models
// here are compared with.
#pragma once

#include <torch/nn/modules/linear.h>

#include <vector>

#include "mala/nn/batch_norm.h"
#include "mala/nn/pixels.h"

namespace mala::models {

using torch::Tensor;

struct ResnetConfig {
  int64_t blocks = 3;  // in each of three stages: 3 make ResNet-20
  int64_t width = 16;  // of the first stage; the others have twice and four times as many
  int64_t classes = 10;
};

class ResnetBlockImpl : public torch::nn::Module {
 public:
  ResnetBlockImpl(int64_t from, int64_t to, int64_t stride);

  Tensor forward(const Tensor& image);

 private:
  torch::nn::Conv2d conv1_, conv2_;
  nn::BatchNorm norm1_, norm2_;
  int64_t stride_, added_;  // channels that the shortcut has too few
};
TORCH_MODULE(ResnetBlock);

class ResnetImpl : public torch::nn::Module {
 public:
  explicit ResnetImpl(const ResnetConfig& config);

  // (B, 3, H, W) -> (B, classes)
  Tensor forward(const Tensor& images);

 private:
  torch::nn::Conv2d conv_;
  nn::BatchNorm norm_;
  std::vector<ResnetBlock> blocks_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Resnet);

}  // namespace mala::models
