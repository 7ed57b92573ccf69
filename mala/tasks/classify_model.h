// A classifier that can be trained, whatever its kind.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>

#include "mala/models/card.h"
#include "mala/tasks/classify_config.h"
#include "mala/tasks/training_task.h"

namespace mala::tasks {

struct TrainableClassifier {
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;  // (B, 3, H, W) -> (B, classes)
  models::Card card;                                           // complete but for labels
  std::function<void()> recompute_activations;                 // empty: it cannot
};

// Made anew from the seed, or filled from the file in `init`, whose head stays behind where it has
// other classes. Throws mala::Error for a name or a shape that no model has.
TrainableClassifier make_trainable(const ClassifyConfig& config, int64_t classes, int64_t seed);

// Tells its batch norms how to add up over processes.
void share_statistics(TrainableClassifier& classifier, const SumOverProcesses& sum);

}  // namespace mala::tasks
