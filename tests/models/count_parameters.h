// What tests of models share.
#pragma once

#include <torch/torch.h>

namespace mala::models {

inline int64_t count_parameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

}  // namespace mala::models
