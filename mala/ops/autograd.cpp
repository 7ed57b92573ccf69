// What the gradients of all operators share.
#include "mala/ops/autograd.h"

namespace mala::ops {

void check_table_gradient(const char* where, at::TensorList tables) {
  for (const Tensor& table : tables) {
    TORCH_CHECK(!table.requires_grad(), "[", where, "] rope_table requires a gradient, which ",
                "is not computed; pass table.detach()");
  }
}

bool is_followed(const Tensor& x) {
  return (x.requires_grad() && at::GradMode::is_enabled()) || x._fw_grad(0).defined();
}

variable_list asked_gradients(AutogradContext* context, const InputGradients& gradients,
                              size_t others) {
  variable_list asked;
  // Edges count the inputs that were present, gradients all of them.
  size_t edge = 0;
  for (const auto& [input, gradient] : gradients) {
    const bool present = input.has_value();
    asked.push_back(present && context->needs_input_grad(edge) ? gradient : Tensor());
    edge += present;
  }
  asked.resize(asked.size() + others);
  return asked;
}

void refuse_second_derivative(const char* name) {
  TORCH_CHECK(false, "[mala::", name, "] a gradient of the gradient was asked for, but only first ",
              "derivatives are computed; call backward without create_graph, or write this ",
              "attention with torch operators");
}

}  // namespace mala::ops
