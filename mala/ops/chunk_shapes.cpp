// The checks and results of causal calls, which have a state.
#include <ATen/ops/empty.h>

#include "mala/ops/attention_shapes.h"
#include "mala/ops/tensors.h"

namespace mala::ops {
namespace {

// On the CPU it may be, too, unless it is changed in place where the tokens are.
void check_count(const char* where, const Tensor& count, const ChunkCall& call, bool in_place) {
  const c10::SymInt sequences = call.tokens.sequences();
  const c10::Device device = call.tokens.q.device();
  const bool is_near = count.device() == device || (!in_place && count.is_cpu());
  TORCH_CHECK(count.scalar_type() == at::kLong && is_near && count.dim() == 1, "[", where,
              "] count is ", count.scalar_type(), " on ", count.device(), " with sizes ",
              count.sym_sizes(), "; it must be Long on ", device,
              in_place || device.is_cpu() ? "" : " or the CPU", " with sizes [", sequences,
              "]: pass the count that came with the state");
  TORCH_SYM_CHECK(count.sym_size(0).sym_eq(sequences), "[", where, "] count has ",
                  count.sym_size(0), " numbers for ", sequences,
                  " sequences; pass the count that came with the state");
}

StateNeeds state_needs(const ChunkCall& call) {
  const AttentionCall& tokens = call.tokens;
  return {at::kDouble, state_sizes(tokens.sequences(), tokens.k, tokens.v),
          "what attention_chunk returned for the tokens before, or zeros, with a count of zeros"};
}

void check_chunk(const char* where, const ChunkCall& call, bool in_place = false) {
  check_tokens(where, call.tokens, true);
  TORCH_CHECK(call.state.has_value() == call.count.has_value(), "[", where, "] ",
              call.state ? "state came without count" : "count came without state",
              "; pass both, as attention_chunk returned them, or none at the beginning");
  if (!call.state) return;
  check_state(where, {"state", *call.state}, {"q", call.tokens.q}, state_needs(call));
  check_count(where, *call.count, call, in_place);
}

// In place there is no room for a copy in another order.
void check_contiguous(const char* where, const char* name, const Tensor& x) {
  TORCH_CHECK(x.is_contiguous(), "[", where, "] ", name, " has sizes ", x.sym_sizes(), ", strides ",
              x.sym_strides(), "; it is updated in place and must be contiguous: ",
              "call .contiguous() and keep the result");
}

}  // namespace

void check_call(const ChunkCall& call) { check_chunk("mala::attention_chunk", call); }

void check_call(const TextCall& call) { check_tokens("mala::attention", call.tokens, true); }

void check_call(const ChunkBackwardCall& call) {
  constexpr const char* kWhere = "mala::attention_chunk_backward";
  const NamedTensor q{"q", call.forward.tokens.q};
  check_chunk(kWhere, call.forward);
  check_tensor(kWhere, {"out_gradient", call.out_gradient}, q);
  if (call.state_gradient) {
    StateNeeds needs = state_needs(call.forward);
    needs.source = "the gradient of the state that attention_chunk returned";
    check_state(kWhere, {"state_gradient", *call.state_gradient}, q, needs);
  }
}

void check_call(const StepCall& call) {
  constexpr const char* kWhere = "mala::attention_step";
  check_chunk(kWhere, call.chunk(), true);
  check_contiguous(kWhere, "state", call.state);
  check_contiguous(kWhere, "count", call.count);
}

ChunkOutputs new_outputs(const ChunkCall& call) { return new_outputs(call, true); }

ChunkOutputs new_outputs(const ChunkCall& call, bool keeps_state) {
  const AttentionCall& tokens = call.tokens;
  if (!keeps_state) return {new_out(tokens.q, tokens.value_dim()), Tensor(), Tensor()};
  // A count stays where it is.
  const at::TensorOptions where = call.count ? call.count->options() : tokens.q.options();
  return {new_out(tokens.q, tokens.value_dim()),
          new_state(state_needs(call).sizes, at::kDouble, tokens.q),
          at::empty_symint({tokens.sequences()}, where.dtype(at::kLong))};
}

Tensor new_outputs(const TextCall& call) { return std::get<0>(new_outputs(call.chunk(), false)); }

Tensor new_outputs(const StepCall& call) { return new_out(call.q, call.v.sym_size(3)); }

ChunkGradients new_gradients(const ChunkCall& call) {
  const Tensor& q = call.tokens.q;
  const Tensor state = call.state ? new_state(state_needs(call).sizes, at::kDouble, q)
                                  : at::empty({0}, q.options().dtype(at::kDouble));
  return std::tuple_cat(new_gradients(call.tokens), std::tuple(state));
}

}  // namespace mala::ops
