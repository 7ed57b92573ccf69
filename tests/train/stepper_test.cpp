// Steps against torch's own optimiser, norm and average, put together by hand.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "mala/train/step.h"
#include "tests/support/refusals.h"
#include "tests/train/line_task.h"

namespace mala::train {
namespace {

using test::LineTask;
using torch::Tensor;

// Both sum up the same float32 numbers, in other orders.
constexpr double kRounding = 2e-6;

TrainConfig plain_config() {
  TrainConfig config;
  config.optimizer.lr = 0.01;
  config.optimizer.clip_norm = 0.05;  // small enough to be felt
  config.schedule = {.epochs = 5, .warmup_epochs = 1, .min_lr = 1e-4, .ema_decay = 0.8};
  return config;
}

torch::optim::AdamW torch_optimizer(LineTask& task, const OptimizerConfig& config) {
  std::vector<Tensor> decayed, others;
  for (const auto& item : task.net->named_parameters()) {
    (item.value().dim() > 1 ? decayed : others).push_back(item.value());
  }
  const auto options = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(1).eps(config.eps).weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, options(config.weight_decay));
  groups.emplace_back(others, options(0));
  return torch::optim::AdamW(groups, torch::optim::AdamWOptions(1));
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max<double>(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Stepper, DoesWhatTorchDoes) {
  const TrainConfig config = plain_config();
  Group alone({}, torch::kCPU);
  LineTask ours({.dropout = 0}), theirs({.dropout = 0});
  Stepper stepper(ours, config, alone, torch::kCPU);
  torch::optim::AdamW optimizer = torch_optimizer(theirs, config.optimizer);
  std::vector<Tensor> average;
  for (const Tensor& p : theirs.net->parameters()) average.push_back(p.detach().clone());
  ours.seek({0, 0});
  theirs.seek({0, 0});
  for (int64_t step = 0; step < 6; ++step) {
    const StepNumbers numbers = stepper.run(step);
    for (auto& group : optimizer.param_groups()) {
      static_cast<torch::optim::AdamWOptions&>(group.options()).lr(stepper.schedule().lr(step));
    }
    optimizer.zero_grad();
    const Tensor loss = theirs.loss(torch::kCPU);
    loss.backward();
    const double norm = torch::nn::utils::clip_grad_norm_(theirs.net->parameters(), 0.05);
    optimizer.step();
    const auto parameters = theirs.net->parameters();
    for (size_t i = 0; i < average.size(); ++i) average[i].lerp_(parameters[i].detach(), 0.2);
    EXPECT_NEAR(numbers.loss.item<double>(), loss.item<double>(), kRounding);
    EXPECT_NEAR(numbers.gradient_norm.item<double>(), norm, kRounding);
  }
  EXPECT_LT(largest_difference(ours.weights(), theirs.weights()), kRounding);
  const std::vector<float> trained = ours.weights();
  stepper.averaged()->swap();
  EXPECT_NE(ours.weights(), trained);
  size_t i = 0;
  for (const Tensor& p : ours.net->parameters()) {
    EXPECT_LT((p - average[i++]).abs().max().item<double>(), kRounding);
  }
  stepper.averaged()->swap();
  EXPECT_EQ(ours.weights(), trained);
}

TEST(Stepper, TwoBatchesOfOneStepAreOneOfTwice) {
  TrainConfig config = plain_config();
  Group alone({}, torch::kCPU);
  LineTask large({.batch = 16, .batches = 3, .dropout = 0}), small({.dropout = 0});
  Stepper once(large, config, alone, torch::kCPU);
  config.optimizer.accumulate = 2;
  Stepper twice(small, config, alone, torch::kCPU);
  EXPECT_EQ(once.examples_per_step(), twice.examples_per_step());
  for (int64_t step = 0; step < 3; ++step) {
    once.run(step);
    twice.run(step);
  }
  EXPECT_LT(largest_difference(large.weights(), small.weights()), kRounding);
}

TEST(Stepper, ABrokenGradientChangesNothing) {
  Group alone({}, torch::kCPU);
  LineTask task({.broken_batch = 1});
  Stepper stepper(task, plain_config(), alone, torch::kCPU);
  stepper.run(0);
  const std::vector<float> before = task.weights();
  EXPECT_EQ(stepper.run(1).is_broken.item<float>(), 1);
  EXPECT_EQ(task.weights(), before);
  EXPECT_EQ(stepper.run(2).is_broken.item<float>(), 0);
  EXPECT_NE(task.weights(), before);
}

TEST(Stepper, FrozenPartsStay) {
  TrainConfig config = plain_config();
  config.optimizer.freeze = {"first", "norm"};
  Group alone({}, torch::kCPU);
  LineTask task;
  const Tensor first = task.net->first->weight.clone(), second = task.net->second->weight.clone();
  Stepper stepper(task, config, alone, torch::kCPU);
  EXPECT_FALSE(task.net->first->is_training());
  EXPECT_TRUE(task.net->second->is_training());
  stepper.run(1);
  EXPECT_TRUE(torch::equal(task.net->first->weight, first));
  EXPECT_FALSE(torch::equal(task.net->second->weight, second));
  config.optimizer.freeze = {"frist"};
  const std::string message =
      test::refusal([&] { Stepper other(task, config, alone, torch::kCPU); });
  EXPECT_TRUE(test::says(message, "did you mean first?"));
}

// With a decay of one half, the first layer learns half as fast as the second.
TEST(Parameters, LayersDecayAndOnlyMatricesDo) {
  OptimizerConfig config{.weight_decay = 0.05, .no_decay = {"scale"}, .layer_decay = 0.5};
  LineTask task;
  for (const ParameterGroup& group : group_parameters(task, *task.net, config)) {
    for (const std::string& name : group.names) {
      EXPECT_EQ(group.lr_factor, name.starts_with("second") ? 1 : 0.5) << name;
      const bool is_matrix = name == "first.weight" || name == "second.weight";
      EXPECT_EQ(group.weight_decay, is_matrix ? 0.05 : 0) << name;
    }
  }
  config.no_decay.clear();
  bool scale_is_decayed = false;
  for (const ParameterGroup& group : group_parameters(task, *task.net, config)) {
    for (const std::string& name : group.names) {
      if (name == "scale") scale_is_decayed = group.weight_decay > 0;
    }
  }
  EXPECT_TRUE(scale_is_decayed);  // as published: it has more than one dimension
}

TEST(LossScale, HalvesAfterAnOverflowAndLeavesGradientsAsTheyWere) {
  LossScale scale("float16", torch::kCPU);
  const double before = scale.scale().item<double>();
  const Tensor x = torch::ones({3}).set_requires_grad(true);
  scale.scaled((x * x).sum()).backward();
  EXPECT_EQ(scale.unscale({x.grad()}).item<float>(), 0);
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({3}, 2.0)));
  x.mutable_grad() = torch::full({3}, INFINITY);
  const Tensor is_broken = scale.unscale({x.grad()});
  EXPECT_EQ(is_broken.item<float>(), 1);
  scale.update(is_broken);
  EXPECT_EQ(scale.scale().item<double>(), before / 2);
}

TEST(Autocast, ChangesTypesOnlyWhileItLives) {
  const Tensor a = torch::randn({4, 4});
  {
    const Autocast autocast(torch::kCPU, "bfloat16");
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
    const Autocast inner(torch::kCPU, "float32");
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat32);
  }
  EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat32);
}

}  // namespace
}  // namespace mala::train
