// mala::attention for C++ callers that have tensors. Knows gradients, autocast and tracing.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "mala/kernels/attention.h"

namespace mala::ops {

// Every field has a default, so that callers name those they mean. The words of the schema stand
// as enumerations; tables are float32 (tokens, D / 2).
struct AttentionArguments {
  // (B, H, N, E); out = (attention + local) * gate
  std::optional<at::Tensor> local = {}, gate = {};
  Rule rule = Rule::kMala;
  Norm norm = Norm::kPublished;
  Feature feature = Feature::kElu1;
  bool key_mean = true;
  std::optional<double> scale = {};  // D^(-1/2) where absent
  double eps = 1e-6;
  Rope::Kind rope = Rope::Kind::kNone;
  std::array<int64_t, 2> rope_offset = {0, 0};  // for q, for k
  std::array<int64_t, 2> grid_width = {0, 0};   // for q, for k
  std::vector<at::Tensor> rope_table = {};      // [cos, sin] or [q_cos, q_sin, k_cos, k_sin]
  // Which tokens belong together: Lengths in mala/kernels/attention.h, here as tensors of int32
  // or int64. Either (B) keys that count, or (S + 1) offsets of sequences packed in a batch of 1.
  std::optional<at::Tensor> key_lengths = {}, cu_seqlens_q = {}, cu_seqlens_k = {};
  // The width of each image, (S) or (S, 2), in place of grid_width.
  std::optional<at::Tensor> grid_widths = {};
};

// q (B, H, N, D), k (B, Hk, M, D), v (B, Hk, M, E) -> (B, H, N, E), where Hk divides H. Any
// strides, float32, bfloat16, float16 or float64. The same as torch.ops.mala.attention. Throws
// c10::Error or mala::Error.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionArguments& arguments = {});

}  // namespace mala::ops
