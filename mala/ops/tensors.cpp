// What the operators share in checking tensors and in allocating results.
#include "mala/ops/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

namespace mala::ops {
namespace {

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

}  // namespace

void check_type(const char* where, const NamedTensor& x) {
  const at::ScalarType type = x.tensor.scalar_type();
  TORCH_CHECK(
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble, "[",
      where, "] ", x.name, " is ", type,
      "; float32, bfloat16, float16 and float64 work: call .float() on the tensors");
}

void check_tensor(const char* where, const NamedTensor& x, const NamedTensor& like) {
  TORCH_CHECK(x.tensor.dim() == 4, "[", where, "] ", x.name, " has sizes ", x.tensor.sym_sizes(),
              "; it must be (batch, heads, tokens, dim): four dimensions");
  TORCH_CHECK(x.tensor.scalar_type() == like.tensor.scalar_type() &&
                  x.tensor.device() == like.tensor.device(),
              "[", where, "] ", x.name, " is ", x.tensor.scalar_type(), " on ", x.tensor.device(),
              " but ", like.name, " is ", like.tensor.scalar_type(), " on ", like.tensor.device(),
              "; convert them to one type and device");
}

void check_tail(const char* where, const TailArguments& tail, const NamedTensor& like) {
  if (tail.local) check_tensor(where, {"local", *tail.local}, like);
  if (tail.gate) check_tensor(where, {"gate", *tail.gate}, like);
}

void check_state(const char* where, const NamedTensor& state, const NamedTensor& like,
                 const StateNeeds& needs) {
  const Tensor& x = state.tensor;
  TORCH_CHECK(x.scalar_type() == needs.type && x.device() == like.tensor.device() && x.dim() == 3,
              "[", where, "] ", state.name, " is ", x.scalar_type(), " on ", x.device(),
              " with sizes ", x.sym_sizes(), "; it must be ", needs.type, " on ",
              like.tensor.device(), " with sizes ", c10::SymIntArrayRef(needs.sizes), ": pass ",
              needs.source);
  for (int64_t i = 0; i < 3; ++i) {
    TORCH_SYM_CHECK(x.sym_size(i).sym_eq(needs.sizes[i]), "[", where, "] ", state.name,
                    " has sizes ", x.sym_sizes(), " but these inputs need ",
                    c10::SymIntArrayRef(needs.sizes), "; pass ", needs.source);
  }
}

std::array<c10::SymInt, 3> state_sizes(const c10::SymInt& sequences, const Tensor& k,
                                       const Tensor& v) {
  const c10::SymInt dim = k.sym_size(3), value_dim = v.sym_size(3);
  return {sequences, k.sym_size(1), dim * value_dim + dim * 2 + value_dim};
}

at::ScalarType sum_type(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor new_state(const std::array<c10::SymInt, 3>& sizes, at::ScalarType type,
                 const Tensor& model) {
  return at::empty_symint(sizes, model.options().dtype(type));
}

Tensor new_out(const Tensor& q, const c10::SymInt& value_dim) {
  return new_heads({q.sym_size(0), q.sym_size(1), q.sym_size(2), value_dim}, q);
}

Tensor new_like(const Tensor& model) {
  return new_heads({model.sym_size(0), model.sym_size(1), model.sym_size(2), model.sym_size(3)},
                   model);
}

Tensor new_like(const std::optional<Tensor>& model, const Tensor& q) {
  return model ? new_like(*model) : at::empty({0}, q.options());
}

}  // namespace mala::ops
