// What weights begin with.
#pragma once

#include <torch/nn/module.h>

namespace mala::models {

// As published: weights of convolutions and projections normal with deviation 0.02, biases 0, norms
// 1 and 0. The published draw is cut at a hundred deviations, which is to say not at all.
void initialize(torch::nn::Module& model);

}  // namespace mala::models
