// The feed-forward part of MAViT, with a look at the neighbours between its projections.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "mala/nn/pixels.h"

namespace mala::nn {

class ConvFfnImpl : public torch::nn::Module {
 public:
  ConvFfnImpl(int64_t dim, int64_t hidden);

  // fc2(h + dwconv(h)), h = gelu(fc1(x))
  Tensor forward(const Tensor& pixels) { return project(fc2, hidden(pixels)); }

  // The same before its last projection, which others may want to scale.
  Tensor hidden(const Tensor& pixels);

  torch::nn::Conv2d fc1, fc2, dwconv;
};
TORCH_MODULE(ConvFfn);

}  // namespace mala::nn
