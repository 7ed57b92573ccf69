// torch registers oneDNN's fused layers for its compiler, by name and without a C++ header.
#include "mala/models/vision/packed_linear.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <utility>

namespace mala::models {
namespace {

using Stack = torch::jit::Stack;

// Nothing where this torch was built without it.
std::optional<c10::OperatorHandle> find(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchema({name, overload});
}

Tensor call(const c10::OperatorHandle& op, Stack stack) {
  op.callBoxed(&stack);
  return stack.front().toTensor();
}

struct Operators {
  std::optional<c10::OperatorHandle> reorder = find("mkldnn::_reorder_linear_weight");
  std::optional<c10::OperatorHandle> linear = find("mkldnn::_linear_pointwise");
  std::optional<c10::OperatorHandle> linear_add = find("mkldnn::_linear_pointwise", "binary");
  std::optional<c10::OperatorHandle> has_bf16 = find("mkldnn::_is_mkldnn_bf16_supported");

  bool are_there() const { return reorder && linear && linear_add; }
};

const Operators& operators() {
  static const Operators found;
  return found;
}

bool multiplies_bfloat16() {
  if (!operators().has_bf16) return false;
  Stack stack;
  operators().has_bf16->callBoxed(&stack);
  return stack.front().toBool();
}

bool can_pack(const Tensor& weight) {
  if (!weight.is_cpu() || !operators().are_there()) return false;
  if (weight.scalar_type() == torch::kBFloat16) return multiplies_bfloat16();
  return weight.scalar_type() == torch::kFloat32;
}

Tensor apply_with(const char* activation, const char* algorithm, const Tensor& x,
                  const Tensor& weight, const Tensor& bias) {
  const c10::List<std::optional<at::Scalar>> no_scalars;
  return call(*operators().linear, {x, weight, bias, activation, no_scalars, algorithm});
}

}  // namespace

PackedLinear::PackedLinear(const Tensor& weight) {
  if (!can_pack(weight)) return;
  const torch::NoGradGuard no_gradients;
  weight_ = call(*operators().reorder, {weight.contiguous(), c10::IValue()});
}

Tensor PackedLinear::apply(const Tensor& x, const Tensor& bias) const {
  return apply_with("none", "", x, weight_, bias);
}

Tensor PackedLinear::apply_gelu(const Tensor& x, const Tensor& bias) const {
  return apply_with("gelu", "none", x, weight_, bias);  // "none": by the error function, not tanh
}

Tensor PackedLinear::apply_add(const Tensor& x, const Tensor& bias, const Tensor& sum) const {
  return call(*operators().linear_add, {x, sum, weight_, bias, "add"});
}

}  // namespace mala::models
