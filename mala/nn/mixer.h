// How tokens look at each other: the rules that models choose from, for each stage.
#pragma once

#include <optional>
#include <string_view>

#include "mala/nn/pixels.h"

namespace mala::nn {

enum class Mixer {
  kMala,
  kSoftmax,
  kLinear,
  kInline,
  kMalaBalanced,  // mala with the balanced norm of docs/math.md: rows sum to one with RoPE too
  // What mala is without one of its parts, to see what that part is for.
  kMalaRelu,     // features relu in place of ELU + 1
  kMalaExp,      // features exp
  kMalaNoGain,   // gain 1 in place of 1 + 1 / s
  kMalaNoShift,  // nothing is taken off
};

// "mala", "softmax", "linear", "inline", "mala_balanced", "mala_relu", "mala_exp", "mala_no_gain",
// "mala_no_shift"
std::string_view word_for(Mixer mixer);
// Throws mala::Error for any other word.
Mixer mixer_named(std::string_view word);

// (B, H, N, D) each, with any strides; out = (attention + local) * gate. On a grid, tokens are
// rotated by their place.
struct MixerInputs {
  Tensor q, k, v;
  std::optional<Tensor> local = {}, gate = {};
  std::optional<GridSize> grid = {};
};

// (B, N, H * D). Softmax goes through torch's own kernels, which never make the N x N map; the
// linear rules go through ours, with the features ELU + 1.
Tensor mix(Mixer mixer, const MixerInputs& inputs);

// (B, H, N, D) from (B, N, H * D), and back: views where tokens lie one after the other.
Tensor split_heads(const Tensor& tokens, int64_t heads);
Tensor join_heads(const Tensor& heads);

// Throws unless the kernels can split `dim` into `heads`.
void check_heads(const char* where, int64_t dim, int64_t heads);

}  // namespace mala::nn
