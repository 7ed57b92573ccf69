// Rotations of tokens on a grid: the first half of a head turns with the row, the second with the
// column.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "mala/nn/pixels.h"

namespace mala::nn {

// The angle of each pair of neighbours for a step of one, (D / 4): 10000^(-t / (D / 4 - 1)).
Tensor grid_angles(int64_t head_dim);

// e^(i angle) for every token and pair, complex float32 (N, D / 2).
Tensor grid_rotation(GridSize grid, int64_t head_dim, torch::Device device);

// Turns the pairs of x (..., N, D) by (N, D / 2). Reckons in float32 where x is narrower.
Tensor rotate(const Tensor& x, const Tensor& rotation);

// The same for all heads of pixels (B, H, W, C), by their place, in their own memory.
void rotate_in_place(const Tensor& pixels, int64_t heads);

// What checkpoints hold of RoPE: the angles, each twice. They are constants of the model, and
// nothing is reckoned from this copy, which a model in bfloat16 would have rounded.
class RopeImpl : public torch::nn::Module {
 public:
  explicit RopeImpl(int64_t head_dim);
};
TORCH_MODULE(Rope);

}  // namespace mala::nn
