// Attention of MAViT: one packed projection, a rule over tokens on a grid, a local term and a gate.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "mala/nn/mixer.h"

namespace mala::nn {

// Queries, keys, values and the gate of one projection, (B, H, W, C) each.
struct PackedParts {
  Tensor q, k, v, gate;
  bool is_rotated = false;  // q and k, by their place: then only softmax can take them
};

// out (B, H, W, C) before the last projection: (attention + local) * gate. `local` is that of the
// values.
Tensor mix_on_grid(Mixer mixer, const PackedParts& parts, const Tensor& local, int64_t heads);

class GridAttentionImpl : public torch::nn::Module {
 public:
  GridAttentionImpl(int64_t dim, int64_t heads, Mixer mixer);

  Tensor forward(const Tensor& pixels) { return project(proj, mixed(pixels)); }

  // The same before its last projection, which others may want to scale.
  Tensor mixed(const Tensor& pixels);

  // What the packed projection makes of the pixels.
  PackedParts parts_of(const Tensor& pixels) const;

  int64_t heads() const { return heads_; }
  Mixer mixer() const { return mixer_; }

  // The names of released checkpoints; lepe is the local term, a depthwise 5x5 of the values.
  torch::nn::Conv2d qkvo, lepe, proj;

 private:
  int64_t heads_;
  Mixer mixer_;
};
TORCH_MODULE(GridAttention);

}  // namespace mala::nn
