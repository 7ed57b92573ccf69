// The arguments of torch.ops.mala.attention as one value, and the flat list the dispatcher needs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace mala::ops {

using at::Tensor;

// One call. Strings and lists belong to the caller; their order is that of the schema.
struct AttentionCall {
  Tensor q;                           // (B, H, N, D)
  Tensor k;                           // (B, Hk, M, D), Hk divides H
  Tensor v;                           // (B, Hk, M, E)
  std::optional<Tensor> local, gate;  // (B, H, N, E)
  std::string_view rule, norm, feature;
  bool key_mean;
  std::optional<double> scale;
  double eps;
  std::string_view rope;
  c10::SymIntArrayRef rope_offset;  // for q, for k
  c10::SymIntArrayRef grid_width;   // for q, for k
  std::optional<at::TensorList> rope_table;
  // Which tokens belong together, in int32 or int64, where it is not all of a batch entry.
  std::optional<Tensor> key_lengths;                 // (B), keys that count
  std::optional<Tensor> cu_seqlens_q, cu_seqlens_k;  // (S + 1), where packed sequences begin
  std::optional<Tensor> grid_widths;                 // (S) or (S, 2), for q, for k

  // rope_table, empty where it is absent.
  at::TensorList tables() const { return rope_table.value_or(at::TensorList()); }

  // S where sequences are packed, else B. Both offsets must be present or absent.
  c10::SymInt sequences() const {
    return cu_seqlens_q ? cu_seqlens_q->sym_size(0) - 1 : q.sym_size(0);
  }
};

using Outputs = std::tuple<Tensor, Tensor>;                            // out, state
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;  // q, k, v, local, gate

// The dispatcher calls plain functions with one parameter per argument of the schema. This turns
// a kernel that takes an AttentionCall into such a function, so the list stands here alone.
template <typename... Arguments>
struct FlatSignature {
  using Attention = Tensor(Arguments...);
  using Forward = Outputs(Arguments...);
  using Backward = Gradients(const Tensor& out_gradient, const Tensor& state, Arguments...);

  template <auto kernel>
  static Tensor attention(Arguments... arguments) {
    return kernel(AttentionCall{arguments...});
  }

  template <auto kernel>
  static Outputs forward(Arguments... arguments) {
    return kernel(AttentionCall{arguments...});
  }

  template <auto kernel>
  static Gradients backward(const Tensor& out_gradient, const Tensor& state,
                            Arguments... arguments) {
    return kernel(out_gradient, state, AttentionCall{arguments...});
  }
};

using Flat =
    FlatSignature<const Tensor&, const Tensor&, const Tensor&,                 // q, k, v
                  const std::optional<Tensor>&, const std::optional<Tensor>&,  // local, gate
                  std::string_view, std::string_view, std::string_view,  // rule, norm, feature
                  bool, std::optional<double>, double,                   // key_mean, scale, eps
                  std::string_view, c10::SymIntArrayRef, c10::SymIntArrayRef,  // rope
                  std::optional<at::TensorList>,                               // rope_table
                  const std::optional<Tensor>&,                                // key_lengths
                  const std::optional<Tensor>&, const std::optional<Tensor>&,  // cu_seqlens
                  const std::optional<Tensor>&>;                               // grid_widths

// The operators through the dispatcher, so that gradients, tracing and autocast see them.
Tensor call_attention(const AttentionCall& call);
Outputs call_forward(const AttentionCall& call);
Gradients call_backward(const Tensor& out_gradient, const Tensor& state, const AttentionCall& call);

}  // namespace mala::ops
