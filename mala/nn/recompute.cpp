// A function of autograd whose inputs are x and all parameters, so that their gradients arrive
// where those of any other layer do.
#include "mala/nn/recompute.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace mala::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using Forward = std::function<Tensor(const Tensor&)>;

at::Generator generator_of(torch::Device device) {
  return at::globalContext().defaultGenerator(device);
}

// Random numbers and autocast as they were, and afterwards as they are now.
class Circumstances {
 public:
  explicit Circumstances(torch::Device device)
      : device_(device),
        state_(generator_of(device).get_state()),
        is_cast_(at::autocast::is_autocast_enabled(device.type())),
        type_(at::autocast::get_autocast_dtype(device.type())) {}

  void restore() const {
    generator_of(device_).set_state(state_);
    at::autocast::set_autocast_enabled(device_.type(), is_cast_);
    at::autocast::set_autocast_dtype(device_.type(), type_);
  }

 private:
  torch::Device device_;
  Tensor state_;
  bool is_cast_;
  torch::ScalarType type_;
};

struct Call : torch::CustomClassHolder {
  Call(Forward function, torch::Device device)
      : forward(std::move(function)), circumstances(device) {}

  Forward forward;
  Circumstances circumstances;
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Call>& call,
                        const at::TensorList& inputs) {
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->save_for_backward(inputs.vec());
    return call->forward(inputs[0]);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto call =
        c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    tensor_list inputs = context->get_saved_variables();
    const bool wants_x = inputs[0].requires_grad();
    inputs[0] = inputs[0].detach().set_requires_grad(wants_x);
    Tensor out;
    const Circumstances now(inputs[0].device());
    {
      const torch::AutoGradMode with_gradients(true);
      call->circumstances.restore();
      out = call->forward(inputs[0]);
      now.restore();
    }
    tensor_list wanted;
    for (const Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    const tensor_list found = torch::autograd::grad({out}, wanted, {gradients[0]});
    tensor_list all{Tensor()};  // for the call, which has none
    auto next = found.begin();
    for (const Tensor& input : inputs) all.push_back(input.requires_grad() ? *next++ : Tensor());
    return all;
  }
};

}  // namespace

Tensor recompute(torch::nn::Module& module, const Forward& forward, const Tensor& x) {
  if (!torch::GradMode::is_enabled()) return forward(x);
  tensor_list inputs{x};
  for (const Tensor& parameter : module.parameters()) inputs.push_back(parameter);
  return Recompute::apply(c10::make_intrusive<Call>(forward, x.device()), at::TensorList(inputs));
}

}  // namespace mala::nn
