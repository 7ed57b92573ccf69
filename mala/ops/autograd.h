// What the gradients of all operators share.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "mala/ops/saved_call.h"

namespace mala::ops {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

void check_table_gradient(const char* where, at::TensorList tables);

// Whether autograd has to know of a call with this input: for a gradient, or to refuse to
// differentiate forwards. Where no input needs it, calls go straight to the kernels.
bool is_followed(const Tensor& x);
inline bool is_followed(const std::optional<Tensor>& x) { return x && is_followed(*x); }

// Each input of forward that may have a gradient, as it was saved, with its gradient.
using InputGradients = std::vector<std::pair<std::optional<Tensor>, Tensor>>;

// What autograd asked for, followed by nothing for `others` inputs that are no tensors.
variable_list asked_gradients(AutogradContext* context, const InputGradients& gradients,
                              size_t others);

// `name` is that of the backward operator.
[[noreturn]] void refuse_second_derivative(const char* name);

// Lets a backward operator run with create_graph=True and speaks up where its own gradient is asked
// for.
template <typename Call>
struct OnceDifferentiable : Function<OnceDifferentiable<Call>> {
  static variable_list forward(AutogradContext*, const at::TensorList&, const Call& call) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return std::apply([](const auto&... x) { return variable_list{x...}; }, call_operator(call));
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    refuse_second_derivative(Call::kName);
  }
};

// The kernel of a backward operator for autograd.
template <typename Call>
typename Call::Result once_differentiable(const Call& call) {
  if (!at::GradMode::is_enabled()) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call_operator(call);
  }
  variable_list inputs = written(call).tensors;
  std::erase_if(inputs, [](const Tensor& x) { return !x.defined(); });
  const variable_list list = OnceDifferentiable<Call>::apply(at::TensorList(inputs), call);
  typename Call::Result results;
  size_t i = 0;
  std::apply([&](auto&... x) { ((x = list[i++]), ...); }, results);
  return results;
}

}  // namespace mala::ops
