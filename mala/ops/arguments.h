// Groups of arguments that the operators of torch.ops.mala share. `fields` lists those of a group
// in the order of the schema; it is the only place that does.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace mala::ops {

using at::Tensor;

// out = (attention + local) * gate, (B, H, N, E) each.
struct TailArguments {
  std::optional<Tensor> local, gate;

  static auto fields(auto& self) { return std::tie(self.local, self.gate); }
};

// How queries and keys become weights.
struct WeightArguments {
  std::string_view rule;
  std::optional<std::string_view> norm;
  std::string_view feature;
  bool key_mean;
  std::optional<double> scale;
  double eps;

  static auto fields(auto& self) {
    return std::tie(self.rule, self.norm, self.feature, self.key_mean, self.scale, self.eps);
  }
};

// How the tokens of one side, q or k, are rotated.
struct RopeArguments {
  std::string_view rope;
  c10::SymInt rope_offset;
  c10::SymInt grid_width;
  std::optional<at::TensorList> rope_table;  // [cos, sin]

  // rope_table, empty where it is absent.
  at::TensorList tables() const { return rope_table.value_or(at::TensorList()); }

  static auto fields(auto& self) {
    return std::tie(self.rope, self.rope_offset, self.grid_width, self.rope_table);
  }
};

// The same for both sides: pairs are for q, for k.
struct RopePairArguments {
  std::string_view rope;
  c10::SymIntArrayRef rope_offset;
  c10::SymIntArrayRef grid_width;
  std::optional<at::TensorList> rope_table;  // [cos, sin] or [q_cos, q_sin, k_cos, k_sin]

  at::TensorList tables() const { return rope_table.value_or(at::TensorList()); }

  // 0 for q, 1 for k, of pairs that are pairs.
  RopeArguments side(size_t i) const {
    const at::TensorList all = tables();
    return {.rope = rope,
            .rope_offset = rope_offset[i],
            .grid_width = grid_width[i],
            .rope_table = all.size() == 4 ? all.slice(2 * i, 2) : all};
  }

  static auto fields(auto& self) {
    return std::tie(self.rope, self.rope_offset, self.grid_width, self.rope_table);
  }
};

// Which tokens belong together, in int32 or int64 on the CPU, where it is not all of a batch entry.
struct LengthArguments {
  std::optional<Tensor> key_lengths;                 // (B), keys that count
  std::optional<Tensor> cu_seqlens_q, cu_seqlens_k;  // (S + 1), where packed sequences begin
  std::optional<Tensor> grid_widths;                 // (S) or (S, 2), for q, for k

  static auto fields(auto& self) {
    return std::tie(self.key_lengths, self.cu_seqlens_q, self.cu_seqlens_k, self.grid_widths);
  }
};

// S where sequences are packed, else B.
inline c10::SymInt count_sequences(const std::optional<Tensor>& cu_seqlens, const Tensor& tokens) {
  return cu_seqlens ? cu_seqlens->sym_size(0) - 1 : tokens.sym_size(0);
}

}  // namespace mala::ops
