// Two passes over the batch, as its variance is small beside its squares: sums, then deviations.
#include "mala/nn/batch_norm.h"

#include <torch/csrc/autograd/custom_function.h>

namespace mala::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Shared : torch::CustomClassHolder {
  explicit Shared(SumOverProcesses function) : sum(std::move(function)) {}

  Tensor of(const Tensor& part) const {
    Tensor total = part.clone();
    sum(total);
    return total;
  }

  SumOverProcesses sum;
};

// The sum over processes, which every process uses: so its gradient is the sum of theirs.
class SharedSum : public torch::autograd::Function<SharedSum> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& part,
                        const c10::intrusive_ptr<Shared>& shared) {
    context->saved_data["shared"] = c10::IValue::make_capsule(shared);
    return shared->of(part);
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto shared =
        c10::static_intrusive_pointer_cast<Shared>(context->saved_data["shared"].toCapsule());
    return {shared->of(gradients[0]), Tensor()};
  }
};

}  // namespace

Tensor BatchNormImpl::forward(const Tensor& image) {
  return sum_ && is_training() ? forward_shared(image) : BatchNorm2dImpl::forward(image);
}

Tensor BatchNormImpl::forward_shared(const Tensor& image) {
  const Tensor wide = image.to(torch::kFloat32);
  const auto on_channels = [](const Tensor& row) { return row.view({1, -1, 1, 1}); };
  const auto shared = c10::make_intrusive<Shared>(sum_);
  // The number of values travels with their sum: parts need not be equal.
  const Tensor own = torch::full({1}, image.numel() / image.size(1), wide.options());
  const Tensor total = SharedSum::apply(torch::cat({wide.sum({0, 2, 3}), own}), shared);
  const Tensor count = total.slice(0, -1).detach();
  const Tensor mean = total.slice(0, 0, -1) / count;
  const Tensor centred = wide - on_channels(mean);
  const Tensor variance = SharedSum::apply(centred.square().sum({0, 2, 3}), shared) / count;
  {
    const torch::NoGradGuard no_gradients;
    const Tensor unbiased = variance * (count / (count - 1));
    running_mean.lerp_(mean.to(running_mean.scalar_type()), *options.momentum());
    running_var.lerp_(unbiased.to(running_var.scalar_type()), *options.momentum());
    num_batches_tracked += 1;
  }
  const Tensor factor = torch::rsqrt(variance + options.eps()) * weight;
  return (centred * on_channels(factor) + on_channels(bias)).to(image.scalar_type());
}

void share_statistics(torch::nn::Module& model, const SumOverProcesses& sum) {
  for (const auto& module : model.modules()) {
    if (auto* norm = module->as<BatchNormImpl>()) norm->share_statistics(sum);
  }
}

}  // namespace mala::nn
