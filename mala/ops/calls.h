// The operators of torch.ops.mala, each with its name, its result, and its arguments as one value.
// Strings and lists in them belong to the caller.
#pragma once

#include "mala/ops/arguments.h"

namespace mala::ops {

using Outputs = std::tuple<Tensor, Tensor>;                            // out, state
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;  // q, k, v, local, gate
using ChunkOutputs = std::tuple<Tensor, Tensor, Tensor>;               // out, state, count
using ChunkGradients = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;  // and state
using KeysGradients = std::tuple<Tensor, Tensor>;                                   // k, v
using QueriesGradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;  // q, state, local, gate

// (B, H, N, D) queries for (B, Hk, M, D) keys and (B, Hk, M, E) values, where Hk divides H.
struct AttentionCall {
  using Result = Outputs;
  static constexpr const char* kName = "attention_forward";

  Tensor q, k, v;
  TailArguments tail;
  WeightArguments weights;
  RopePairArguments ropes;
  LengthArguments lengths;

  c10::SymInt sequences() const { return count_sequences(lengths.cu_seqlens_q, q); }
  c10::SymInt value_dim() const { return v.sym_size(3); }

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.q, self.k, self.v), TailArguments::fields(self.tail),
                          WeightArguments::fields(self.weights),
                          RopePairArguments::fields(self.ropes),
                          LengthArguments::fields(self.lengths));
  }
};

// The same without the state, for calls that no gradient follows.
struct StatelessCall {
  using Result = Tensor;
  static constexpr const char* kName = "attention_stateless";

  AttentionCall tokens;

  static auto fields(auto& self) { return AttentionCall::fields(self.tokens); }
};

struct WholeCall {
  using Result = Tensor;
  static constexpr const char* kName = "attention";

  AttentionCall tokens;
  bool causal;

  static auto fields(auto& self) {
    return std::tuple_cat(AttentionCall::fields(self.tokens), std::tie(self.causal));
  }
};

struct BackwardCall {
  using Result = Gradients;
  static constexpr const char* kName = "attention_backward";

  Tensor out_gradient;
  Tensor state;  // of attention_forward
  AttentionCall forward;

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.out_gradient, self.state),
                          AttentionCall::fields(self.forward));
  }
};

// Causal: N = M, and the state of the tokens before, float64 (S, Hk, D * E + 2 * D + E), with the
// number of keys in it, int64 (S). Both are absent at the beginning.
struct ChunkCall {
  using Result = ChunkOutputs;
  static constexpr const char* kName = "attention_chunk";

  AttentionCall tokens;
  std::optional<Tensor> state, count;

  static auto fields(auto& self) {
    return std::tuple_cat(AttentionCall::fields(self.tokens), std::tie(self.state, self.count));
  }
};

// Whole texts, without a state before or after.
struct TextCall {
  using Result = Tensor;
  static constexpr const char* kName = "attention_text";

  AttentionCall tokens;

  ChunkCall chunk() const { return {tokens, {}, {}}; }

  static auto fields(auto& self) { return AttentionCall::fields(self.tokens); }
};

struct ChunkBackwardCall {
  using Result = ChunkGradients;
  static constexpr const char* kName = "attention_chunk_backward";

  Tensor out_gradient;
  std::optional<Tensor> state_gradient;  // of the state after the chunk
  ChunkCall forward;

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.out_gradient, self.state_gradient),
                          ChunkCall::fields(self.forward));
  }
};

// One token for each sequence; the state is brought up to date in place.
struct StepCall {
  using Result = Tensor;
  static constexpr const char* kName = "attention_step";

  Tensor q, k, v, state, count;
  TailArguments tail;
  WeightArguments weights;
  RopePairArguments ropes;

  // The same as a chunk of one token.
  ChunkCall chunk() const { return {{q, k, v, tail, weights, ropes, {}}, state, count}; }

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.q, self.k, self.v, self.state, self.count),
                          TailArguments::fields(self.tail), WeightArguments::fields(self.weights),
                          RopePairArguments::fields(self.ropes));
  }
};

// The sums over the keys of one caller of several.
struct KeysCall {
  using Result = Tensor;
  static constexpr const char* kName = "attention_keys";

  Tensor k, v;
  std::string_view feature;
  RopeArguments rope;
  std::optional<Tensor> key_lengths, cu_seqlens_k;
  std::optional<Tensor> grid_widths;  // (S)

  c10::SymInt sequences() const { return count_sequences(cu_seqlens_k, k); }

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.k, self.v, self.feature), RopeArguments::fields(self.rope),
                          std::tie(self.key_lengths, self.cu_seqlens_k, self.grid_widths));
  }
};

struct KeysBackwardCall {
  using Result = KeysGradients;
  static constexpr const char* kName = "attention_keys_backward";

  Tensor state_gradient;
  KeysCall forward;

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.state_gradient), KeysCall::fields(self.forward));
  }
};

// The queries of one caller, for the sums over the keys of all.
struct QueriesCall {
  using Result = Tensor;
  static constexpr const char* kName = "attention_queries";

  Tensor q;
  Tensor state;        // (S, Hk, D * E + 2 * D + E), float32, or float64 for float64
  Tensor key_lengths;  // (S), the keys in the state
  TailArguments tail;
  WeightArguments weights;
  RopeArguments rope;
  std::optional<Tensor> cu_seqlens_q;
  std::optional<Tensor> grid_widths;  // (S)

  c10::SymInt sequences() const { return count_sequences(cu_seqlens_q, q); }

  // E, which the size of the state tells.
  c10::SymInt value_dim() const {
    const c10::SymInt dim = q.sym_size(3);
    return (state.sym_size(2) - dim * 2) / (dim + 1);
  }

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.q, self.state, self.key_lengths),
                          TailArguments::fields(self.tail), WeightArguments::fields(self.weights),
                          RopeArguments::fields(self.rope),
                          std::tie(self.cu_seqlens_q, self.grid_widths));
  }
};

struct QueriesBackwardCall {
  using Result = QueriesGradients;
  static constexpr const char* kName = "attention_queries_backward";

  Tensor out_gradient;
  QueriesCall forward;

  static auto fields(auto& self) {
    return std::tuple_cat(std::tie(self.out_gradient), QueriesCall::fields(self.forward));
  }
};

// The operator through the dispatcher, so that gradients, tracing and autocast see it.
template <typename Call>
typename Call::Result call_operator(const Call& call);

}  // namespace mala::ops
