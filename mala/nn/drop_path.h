// Stochastic depth: in training, a branch is left out for some images of a batch.
#pragma once

#include <torch/types.h>

namespace mala::nn {

// Each image's branch is zero with this probability, else larger by so much that the mean stays.
torch::Tensor drop_path(const torch::Tensor& branch, double probability, bool is_training);

// The probability for each of `count` blocks: none for the first, rising evenly to `last`.
double drop_path_of(int64_t block, int64_t count, double last);

}  // namespace mala::nn
