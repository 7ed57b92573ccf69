// What every device shares: checks of the tensors of a call, and its results, allocated.
#include "mala/ops/attention_shapes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <array>

#include "mala/ops/lengths.h"
#include "mala/ops/options.h"

namespace mala::ops {
namespace {

void check_tensor(const char* name, const Tensor& x, const Tensor& q) {
  TORCH_CHECK(x.dim() == 4, "[mala::attention] ", name, " has sizes ", x.sym_sizes(),
              "; it must be (batch, heads, tokens, dim): four dimensions");
  TORCH_CHECK(x.scalar_type() == q.scalar_type() && x.device() == q.device(), "[mala::attention] ",
              name, " is ", x.scalar_type(), " on ", x.device(), " but q is ", q.scalar_type(),
              " on ", q.device(), "; convert them to one type and device");
}

// (batch, heads, tokens, dim), dense, in the order in memory that `model` has.
Tensor new_heads(const std::array<c10::SymInt, 4>& sizes, const Tensor& model) {
  const auto& [batch, heads, tokens, dim] = sizes;
  const c10::SymInt entry = heads * tokens * dim;
  std::array<c10::SymInt, 4> strides = {entry, tokens * dim, dim, 1};
  if (model.sym_stride(3) > model.sym_stride(2)) {
    strides = {entry, tokens * dim, 1, tokens};
  } else if (model.sym_stride(2) > model.sym_stride(1)) {
    strides = {entry, dim, heads * dim, 1};
  }
  return at::empty_strided_symint(sizes, strides, model.options());
}

Tensor new_like(const Tensor& model) {
  return new_heads({model.sym_size(0), model.sym_size(1), model.sym_size(2), model.sym_size(3)},
                   model);
}

// (sequences, Hk, elements of one head's state)
std::array<c10::SymInt, 3> state_sizes(const AttentionCall& call) {
  const c10::SymInt dim = call.q.sym_size(3), value_dim = call.v.sym_size(3);
  return {call.sequences(), call.k.sym_size(1), dim * value_dim + 2 * dim + value_dim};
}

// Sums are kept in float32 for the narrower types.
at::ScalarType state_type(const AttentionCall& call) {
  return call.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_state(const Tensor& state, const AttentionCall& call) {
  TORCH_CHECK(state.scalar_type() == state_type(call) && state.device() == call.q.device() &&
                  state.dim() == 3 && state.is_contiguous(),
              "[mala::attention_backward] state is ", state.scalar_type(), " on ", state.device(),
              " with sizes ", state.sym_sizes(), ", strides ", state.sym_strides(),
              "; pass what attention_forward returned for the same inputs, as it is");
  const std::array<c10::SymInt, 3> needed = state_sizes(call);
  for (int64_t i = 0; i < 3; ++i) {
    TORCH_SYM_CHECK(state.sym_size(i).sym_eq(needed[i]), "[mala::attention_backward] state has ",
                    "sizes ", state.sym_sizes(), " but these inputs leave ",
                    c10::SymIntArrayRef(needed),
                    "; pass what attention_forward returned for the same inputs");
  }
}

// A defined tensor stands for an absent gradient: tracers do not take undefined ones.
Tensor new_like(const std::optional<Tensor>& model, const Tensor& q) {
  return model ? new_like(*model) : at::empty({0}, q.options());
}

}  // namespace

void check_call(const AttentionCall& call) {
  const at::ScalarType type = call.q.scalar_type();
  TORCH_CHECK(
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble,
      "[mala::attention] q is ", type,
      "; float32, bfloat16, float16 and float64 work: call .float() on the tensors");
  check_tensor("q", call.q, call.q);
  check_tensor("k", call.k, call.q);
  check_tensor("v", call.v, call.q);
  if (call.local) check_tensor("local", *call.local, call.q);
  if (call.gate) check_tensor("gate", *call.gate, call.q);
  check_lengths(call);
  check_options(call);
}

void check_backward(const Tensor& out_gradient, const Tensor& state, const AttentionCall& call) {
  check_call(call);
  check_tensor("out_gradient", out_gradient, call.q);
  check_state(state, call);
}

Tensor new_out(const AttentionCall& call) {
  const Tensor& q = call.q;
  return new_heads({q.sym_size(0), q.sym_size(1), q.sym_size(2), call.v.sym_size(3)}, q);
}

Tensor new_state(const AttentionCall& call) {
  return at::empty_symint(state_sizes(call), call.q.options().dtype(state_type(call)));
}

Gradients new_gradients(const AttentionCall& call) {
  return {new_like(call.q), new_like(call.k), new_like(call.v), new_like(call.local, call.q),
          new_like(call.gate, call.q)};
}

}  // namespace mala::ops
