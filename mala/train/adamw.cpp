// torch's fused kernel, with one count of steps for all parameters.
#include "mala/train/adamw.h"

#include <ATen/ops/_fused_adamw.h>

#include "mala/core/error.h"

namespace mala::train {

using torch::Tensor;

AdamW::AdamW(std::vector<ParameterGroup> groups, const OptimizerConfig& config,
             torch::Device device)
    : groups_(std::move(groups)), steps_(torch::zeros({}, device)), config_(config) {
  for (const ParameterGroup& group : groups_) {
    Moments& moments = moments_.emplace_back();
    for (const Tensor& parameter : group.parameters) {
      // The same layout as the parameter: the kernel walks memory, not indices.
      moments.mean.push_back(torch::zeros_like(parameter));
      moments.square.push_back(torch::zeros_like(parameter));
    }
  }
}

void AdamW::step(double lr, const Tensor& is_broken) {
  const torch::NoGradGuard no_gradients;
  steps_.add_(1 - is_broken);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : group.parameters) gradients.push_back(parameter.grad());
    const std::vector<Tensor> steps(gradients.size(), steps_);
    at::_fused_adamw_(group.parameters, gradients, moments_[i].mean, moments_[i].square, {}, steps,
                      lr * group.lr_factor, config_.beta1, config_.beta2, group.weight_decay,
                      config_.eps, /*amsgrad=*/false, /*maximize=*/false, {}, is_broken);
  }
}

void AdamW::clear_gradients() {
  for (ParameterGroup& group : groups_) {
    for (Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

std::vector<Tensor> AdamW::gradients() const {
  std::vector<Tensor> all;
  for (const ParameterGroup& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      all.push_back(group.parameters[i].grad());
      check(all.back().defined(), "train", "the loss does not depend on '", group.names[i],
            "'; freeze it (optimizer.freeze), or use it in the model");
    }
  }
  return all;
}

std::vector<Tensor> AdamW::parameters() const {
  std::vector<Tensor> all;
  for (const ParameterGroup& group : groups_) {
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  }
  return all;
}

std::vector<std::string> AdamW::names() const {
  std::vector<std::string> all;
  for (const ParameterGroup& group : groups_) {
    all.insert(all.end(), group.names.begin(), group.names.end());
  }
  return all;
}

void AdamW::visit_state(const Visit& visit) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (size_t j = 0; j < groups_[i].names.size(); ++j) {
      visit("mean." + groups_[i].names[j], moments_[i].mean[j]);
      visit("square." + groups_[i].names[j], moments_[i].square[j]);
    }
  }
  visit("steps", steps_);
}

}  // namespace mala::train
