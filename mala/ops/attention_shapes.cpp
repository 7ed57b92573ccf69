// The checks and results of bidirectional calls and their halves.
#include "mala/ops/attention_shapes.h"

#include <ATen/ops/empty_like.h>

#include "mala/ops/lengths.h"
#include "mala/ops/options.h"
#include "mala/ops/tensors.h"

namespace mala::ops {
namespace {

void check_keys(const char* where, const KeysCall& call) {
  const NamedTensor k{"k", call.k};
  check_type(where, k);
  check_tensor(where, k, k);
  check_tensor(where, {"v", call.v}, k);
  check_lengths(where, call);
  check_feature(where, call.feature);
  check_rope(where, call.rope, call.k, call.grid_widths.has_value());
}

// The state tells the heads of keys and the size of values, so it must make sense by itself.
void check_total_state(const char* where, const QueriesCall& call) {
  const Tensor &q = call.q, &state = call.state;
  const at::ScalarType needed = sum_type(q);
  TORCH_CHECK(state.scalar_type() == needed && state.device() == q.device() && state.dim() == 3,
              "[", where, "] state is ", state.scalar_type(), " on ", state.device(),
              " with sizes ", state.sym_sizes(), "; for q it must be ", needed, " on ", q.device(),
              ", (sequences, heads of k, D * E + 2 * D + E): pass the sum of what attention_keys ",
              "returned");
  const c10::SymInt dim = q.sym_size(3), value_dim = call.value_dim();
  const c10::SymBool same_size = (dim * value_dim + dim * 2 + value_dim).sym_eq(state.sym_size(2));
  TORCH_SYM_CHECK(same_size.sym_and(value_dim.sym_ge(8)), "[", where, "] state has sizes ",
                  state.sym_sizes(), ", the last of which is no D * E + 2 * D + E for D = ", dim,
                  ", the head size of q, and an E of 8 or more; pass the sum of what ",
                  "attention_keys returned for keys of that size");
  TORCH_SYM_CHECK(state.sym_size(0).sym_eq(call.sequences()), "[", where, "] state has sizes ",
                  state.sym_sizes(), " but q has ", call.sequences(),
                  " sequences; both need the same number");
}

void check_queries(const char* where, const QueriesCall& call) {
  const NamedTensor q{"q", call.q};
  check_type(where, q);
  check_tensor(where, q, q);
  check_tail(where, call.tail, q);
  check_lengths(where, call);
  check_total_state(where, call);
  check_weights(where, call.weights);
  check_rope(where, call.rope, call.q, call.grid_widths.has_value());
}

}  // namespace

void check_tokens(const char* where, const AttentionCall& call, bool causal) {
  const NamedTensor q{"q", call.q};
  check_type(where, q);
  check_tensor(where, q, q);
  check_tensor(where, {"k", call.k}, q);
  check_tensor(where, {"v", call.v}, q);
  check_tail(where, call.tail, q);
  causal ? check_causal_lengths(where, call) : check_lengths(where, call);
  check_weights(where, call.weights);
  check_ropes(where, call);
}

void check_call(const AttentionCall& call) { check_tokens("mala::attention", call, false); }

void check_call(const StatelessCall& call) { check_call(call.tokens); }

void check_call(const BackwardCall& call) {
  constexpr const char* kWhere = "mala::attention_backward";
  const AttentionCall& forward = call.forward;
  const NamedTensor q{"q", forward.q};
  check_tokens(kWhere, forward, false);
  check_tensor(kWhere, {"out_gradient", call.out_gradient}, q);
  check_state(kWhere, {"state", call.state}, q,
              {sum_type(forward.q), state_sizes(forward.sequences(), forward.k, forward.v),
               "what attention_forward returned for the same inputs"});
}

void check_call(const KeysCall& call) { check_keys("mala::attention_keys", call); }

void check_call(const KeysBackwardCall& call) {
  constexpr const char* kWhere = "mala::attention_keys_backward";
  const KeysCall& forward = call.forward;
  check_keys(kWhere, forward);
  check_state(kWhere, {"state_gradient", call.state_gradient}, {"k", forward.k},
              {sum_type(forward.k), state_sizes(forward.sequences(), forward.k, forward.v),
               "the gradient of what attention_keys returned"});
}

void check_call(const QueriesCall& call) { check_queries("mala::attention_queries", call); }

void check_call(const QueriesBackwardCall& call) {
  constexpr const char* kWhere = "mala::attention_queries_backward";
  check_queries(kWhere, call.forward);
  const Tensor& out_gradient = call.out_gradient;
  check_tensor(kWhere, {"out_gradient", out_gradient}, {"q", call.forward.q});
  TORCH_SYM_CHECK(out_gradient.sym_size(3).sym_eq(call.forward.value_dim()), "[", kWhere,
                  "] out_gradient has sizes ", out_gradient.sym_sizes(), " but the state holds ",
                  "values of size ", call.forward.value_dim(), "; pass the gradient of out");
}

Outputs new_outputs(const AttentionCall& call) {
  return {new_out(call.q, call.value_dim()),
          new_state(state_sizes(call.sequences(), call.k, call.v), sum_type(call.q), call.q)};
}

Tensor new_outputs(const StatelessCall& call) {
  return new_out(call.tokens.q, call.tokens.value_dim());
}

Tensor new_outputs(const KeysCall& call) {
  return new_state(state_sizes(call.sequences(), call.k, call.v), sum_type(call.k), call.k);
}

Tensor new_outputs(const QueriesCall& call) { return new_out(call.q, call.value_dim()); }

Gradients new_gradients(const AttentionCall& call) {
  return {new_like(call.q), new_like(call.k), new_like(call.v), new_like(call.tail.local, call.q),
          new_like(call.tail.gate, call.q)};
}

KeysGradients new_gradients(const KeysCall& call) { return {new_like(call.k), new_like(call.v)}; }

QueriesGradients new_gradients(const QueriesCall& call) {
  return {new_like(call.q), at::empty_like(call.state, at::MemoryFormat::Contiguous),
          new_like(call.tail.local, call.q), new_like(call.tail.gate, call.q)};
}

}  // namespace mala::ops
