// The operators of torch.ops.mala for C++ callers that have tensors. They know gradients, autocast
// and tracing, and throw c10::Error or mala::Error.
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
  std::optional<Norm> norm = {};  // where absent: published, but balanced for causal mala
  Feature feature = Feature::kElu1;
  bool key_mean = true;
  std::optional<double> scale = {};  // D^(-1/2) where absent
  double eps = 1e-6;
  Rope::Kind rope = Rope::Kind::kNone;
  std::array<int64_t, 2> rope_offset = {0, 0};  // for q, for k
  std::array<int64_t, 2> grid_width = {0, 0};   // for q, for k
  std::vector<at::Tensor> rope_table = {};      // [cos, sin] or [q_cos, q_sin, k_cos, k_sin]
  // Which tokens belong together: Lengths in mala/kernels/attention.h, here as tensors of int32
  // or int64 on the CPU. Either (B) keys that count, or (S + 1) offsets of sequences packed in a
  // batch of 1.
  std::optional<at::Tensor> key_lengths = {}, cu_seqlens_q = {}, cu_seqlens_k = {};
  // The width of each image, (S) or (S, 2), in place of grid_width.
  std::optional<at::Tensor> grid_widths = {};
};

// q (B, H, N, D), k (B, Hk, M, D), v (B, Hk, M, E) -> (B, H, N, E), where Hk divides H. Any
// strides, float32, bfloat16, float16 or float64.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionArguments& arguments = {});

// The causal form, N = M: token t sees the keys up to its own. cu_seqlens_q alone says where packed
// sequences begin.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionArguments& arguments = {});

// What a part of a text leaves behind: `state` float64 (S, Hk, D * E + 2 * D + E), and `count`
// int64 (S), the keys in it. S is B where sequences are not packed.
struct Chunk {
  at::Tensor out, state, count;
};

// The causal form for a part of a text, which goes on from the state that the part before left;
// at the beginning both are absent. Gradients flow through the state from part to part.
Chunk attention_chunk(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const std::optional<at::Tensor>& state = {},
                      const std::optional<at::Tensor>& count = {},
                      const AttentionArguments& arguments = {});

// One token for each of B sequences, N = 1; state and count are brought up to date in place. The
// arguments have no lengths. Throws where an input requires a gradient and gradients are on.
at::Tensor attention_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& state, const at::Tensor& count,
                          const AttentionArguments& arguments = {});

// Attention in two halves, for tokens that are spread over several callers; see
// mala/kernels/split.h. Each sums its own keys into a state (S, Hk, D * E + 2 * D + E), float32, or
// float64 for float64. Of the arguments this takes what concerns keys: the feature, the second of
// each pair, key_lengths and cu_seqlens_k.
at::Tensor attention_keys(const at::Tensor& k, const at::Tensor& v,
                          const AttentionArguments& arguments = {});

// The callers add their states, and each applies the total to its own queries. `key_lengths` (S)
// counts the keys of all callers. Of the arguments this takes all but what concerns keys alone.
at::Tensor attention_queries(const at::Tensor& q, const at::Tensor& state,
                             const at::Tensor& key_lengths,
                             const AttentionArguments& arguments = {});

}  // namespace mala::ops
