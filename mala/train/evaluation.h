// How good the model is, with its own weights and with the averaged ones.
#pragma once

#include <map>
#include <string>

#include "mala/io/event_file.h"
#include "mala/tasks/training_task.h"
#include "mala/train/averaged.h"
#include "mala/train/group.h"

namespace mala::train {

struct Evaluation {
  io::Scalars metrics;       // those of the averaged weights begin with "ema_"
  double goal = 0;           // the better one of the task's first metric
  bool of_averaged = false;  // which weights have it
  bool more_is_better = true;

  bool is_better_than(double other) const { return more_is_better ? goal > other : goal < other; }
};

struct EvaluationPlace {
  std::string precision;
  torch::Device device;
};

// Over the data of all processes. Without metrics where the task has no data for it. `averaged`
// may be null. The model is left in the mode of evaluation.
Evaluation evaluate_both(tasks::TrainingTask& task, AveragedWeights* averaged,
                         const EvaluationPlace& place, const Group& group);

// Writes the model with the averaged weights, or with its own where they are null.
void export_weights(tasks::TrainingTask& task, AveragedWeights* averaged, const std::string& path,
                    const std::map<std::string, std::string>& facts);

// What stands beside exported weights.
std::map<std::string, std::string> facts_of(const Evaluation& evaluation, int64_t step,
                                            const std::string& recipe);

}  // namespace mala::train
