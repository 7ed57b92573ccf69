// One step of training: losses of a few batches, their gradients, and what they do to the weights.
#pragma once

#include <optional>

#include "mala/train/adamw.h"
#include "mala/train/averaged.h"
#include "mala/train/group.h"
#include "mala/train/precision.h"
#include "mala/train/schedule.h"

namespace mala::train {

// Numbers of a step, still on the device: nobody waits for it.
struct StepNumbers {
  int64_t step = 0;
  torch::Tensor loss = {},
                gradient_norm = {};  // mean over the batches of the step; before clipping
  torch::Tensor is_broken = {};      // 1: a gradient was not finite, and nothing was changed
};

// Throws mala::Error where the options ask for activations to be reckoned twice and the model
// cannot.
void prepare_activations(tasks::TrainingTask& task, const OptimizerConfig& options);

class Stepper {
 public:
  // Freezes what the config says, groups the parameters, moves the model to the device.
  Stepper(tasks::TrainingTask& task, const TrainConfig& config, Group& group, torch::Device device);

  const Schedule& schedule() const { return schedule_; }
  int64_t examples_per_step() const { return examples_; }

  // After an evaluation.
  void enter_training();

  // The task stands at this step's first batch.
  StepNumbers run(int64_t step);
  // The loss of one batch, with the random numbers that run() gives it.
  torch::Tensor loss_of(int64_t step, int64_t batch);

  AveragedWeights* averaged() { return averaged_ ? &*averaged_ : nullptr; }
  bool has_loss_scale() const { return scale_.is_on(); }
  double loss_scale() { return scale_.scale().item<double>(); }

  // Everything that the next step depends on, besides its number.
  using Visit = std::function<void(const std::string& name, torch::Tensor& tensor)>;
  void visit_state(const Visit& visit);

 private:
  tasks::TrainingTask& task_;
  TrainConfig config_;
  Group& group_;
  torch::Device device_;
  int64_t examples_;
  Schedule schedule_;
  AdamW optimizer_;
  LossScale scale_;
  std::optional<AveragedWeights> averaged_;
};

}  // namespace mala::train
