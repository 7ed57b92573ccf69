// Forward, backward, clip, update, average.
#include "mala/train/step.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <torch/utils.h>

#include "mala/core/error.h"
#include "mala/models/layout.h"

namespace mala::train {
namespace {

using torch::Tensor;

AdamW make_optimizer(tasks::TrainingTask& task, const TrainConfig& config, torch::Device device) {
  const OptimizerConfig& options = config.optimizer;
  torch::nn::Module& model = task.model();
  freeze(model, options.freeze);
  model.to(device);
  if (options.channels_last) models::lay_channels_last(model);
  prepare_activations(task, options);
  return {group_parameters(task, model, options), options, device};
}

int64_t examples_of(const tasks::TrainingTask& task, const TrainConfig& config, int64_t world) {
  return task.batch_size() * config.optimizer.accumulate * world;
}

Tensor norm_of(const std::vector<Tensor>& gradients) {
  return torch::stack(at::_foreach_norm(gradients)).norm();
}

// A seed for everything that this batch draws, so that no random state has to be kept: splitmix64
// over what tells batches apart.
uint64_t seed_of(int64_t seed, int64_t step, int64_t batch, int64_t rank) {
  uint64_t state = 0;
  for (const int64_t part : {seed, step, batch, rank}) {
    state += 0x9E3779B97F4A7C15u + static_cast<uint64_t>(part);
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    state ^= state >> 31;
  }
  return state;
}

}  // namespace

void prepare_activations(tasks::TrainingTask& task, const OptimizerConfig& options) {
  check(!options.checkpoint_activations || task.checkpoint_activations(), "train", "the model ",
        task.model_name(), " cannot reckon its activations twice; set",
        " optimizer.checkpoint_activations=false");
}

Stepper::Stepper(tasks::TrainingTask& task, const TrainConfig& config, Group& group,
                 torch::Device device)
    : task_(task),
      config_(config),
      group_(group),
      device_(device),
      examples_(examples_of(task, config, group.world())),
      schedule_(config, task.batches_per_epoch() / config.optimizer.accumulate, examples_),
      optimizer_(make_optimizer(task, config, device)),
      scale_(config.run.precision, device) {
  if (config.schedule.ema_decay > 0) averaged_.emplace(task.model());
  if (group.world() > 1) {
    task.share_statistics([&group](Tensor& tensor) { group.sum(tensor); });
  }
  group_.reduce_gradients_of(optimizer_.parameters());
  enter_training();
}

void Stepper::enter_training() { set_training_mode(task_.model(), config_.optimizer.freeze); }

Tensor Stepper::loss_of(int64_t step, int64_t batch) {
  torch::manual_seed(seed_of(config_.run.seed, step, batch, group_.rank()));
  const Autocast autocast(device_, config_.run.precision);
  return task_.loss(device_).to(torch::kFloat32);
}

StepNumbers Stepper::run(int64_t step) {
  const int64_t batches = config_.optimizer.accumulate;
  StepNumbers numbers{.step = step, .loss = torch::zeros({}, device_)};
  optimizer_.clear_gradients();
  for (int64_t i = 0; i < batches; ++i) {
    const Tensor loss = loss_of(step, i) / static_cast<double>(batches);
    group_.backward(scale_.scaled(loss), i + 1 == batches);
    numbers.loss += loss.detach();
  }
  const std::vector<Tensor> gradients = optimizer_.gradients();
  numbers.is_broken = scale_.unscale(gradients);
  const torch::NoGradGuard no_gradients;
  numbers.gradient_norm = norm_of(gradients);
  if (config_.optimizer.clip_norm > 0) {
    const Tensor factor =
        (config_.optimizer.clip_norm / (numbers.gradient_norm + 1e-6)).clamp_max(1);
    at::_foreach_mul_(gradients, factor);
  }
  optimizer_.step(schedule_.lr(step), numbers.is_broken);
  scale_.update(numbers.is_broken);
  if (averaged_) averaged_->update(schedule_.ema_decay(step));
  return numbers;
}

void Stepper::visit_state(const Visit& visit) {
  for (auto& item : task_.model().named_parameters()) visit("model." + item.key(), item.value());
  for (auto& item : task_.model().named_buffers()) visit("model." + item.key(), item.value());
  optimizer_.visit_state(
      [&](const std::string& name, Tensor& tensor) { visit("adamw." + name, tensor); });
  if (averaged_) {
    averaged_->visit_state(
        [&](const std::string& name, Tensor& tensor) { visit("averaged." + name, tensor); });
  }
  visit("loss_scale", scale_.scale());
  visit("loss_scale_steps", scale_.steps_without_overflow());
}

}  // namespace mala::train
