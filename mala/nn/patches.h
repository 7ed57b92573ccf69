// From pictures to pixels of the first stage, and from stage to stage.
#pragma once

#include <torch/nn/modules/container/sequential.h>

#include "mala/nn/batch_norm.h"
#include "mala/nn/pixels.h"

namespace mala::nn {

// Throws mala::Error unless images are (B, 3, H, W).
void check_images(const Tensor& images);

// Four 3x3 convolutions with batch norms, GELU between them.
class PatchEmbedImpl : public torch::nn::Module {
 public:
  // The picture shrinks by `stride`: 4, or 2 for small pictures.
  PatchEmbedImpl(int64_t dim, int64_t stride);

  // (B, 3, H, W) with any strides -> (B, H / stride, W / stride, dim)
  Tensor forward(const Tensor& images);

  torch::nn::Sequential proj;
};
TORCH_MODULE(PatchEmbed);

// Halves height and width, rounded up.
class DownsampleImpl : public torch::nn::Module {
 public:
  DownsampleImpl(int64_t from, int64_t to);

  Tensor forward(const Tensor& pixels);

  torch::nn::Conv2d reduction;
  BatchNorm norm;
};
TORCH_MODULE(Downsample);

}  // namespace mala::nn
