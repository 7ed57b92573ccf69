// The parameters of a model in groups that are trained alike.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "mala/tasks/training_task.h"
#include "mala/train/config.h"

namespace mala::train {

struct ParameterGroup {
  double weight_decay = 0;
  double lr_factor = 1;  // of the schedule's learning rate
  std::vector<std::string> names = {};
  std::vector<torch::Tensor> parameters = {};
};

// Vectors and biases are not decayed, nor what `no_decay` names; layer scales are, where they have
// more than one dimension, as published. Frozen parameters are in no group.
std::vector<ParameterGroup> group_parameters(const tasks::TrainingTask& task,
                                             torch::nn::Module& model,
                                             const OptimizerConfig& config);

// Stops the gradients of the modules with these names. Throws mala::Error with the nearest name
// for one that the model does not have.
void freeze(torch::nn::Module& model, const std::vector<std::string>& names);

// Training mode for all but the frozen modules, whose statistics stay as they are.
void set_training_mode(torch::nn::Module& model, const std::vector<std::string>& frozen);

}  // namespace mala::train
