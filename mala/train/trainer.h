// The training loop. It knows steps, not what is trained: that is the task's.
#pragma once

#include <optional>
#include <string>

#include "mala/tasks/training_task.h"
#include "mala/train/config.h"
#include "mala/train/group.h"
#include "mala/train/observer.h"

namespace mala::train {

struct Outcome {
  int64_t step = 0;
  bool is_done = false;        // false: stopped by the observer, saved, and can go on
  std::optional<double> best;  // of the task's first metric
  std::string model_file;      // what prediction reads; empty before the first export
};

struct Job {
  tasks::TrainingTask& task;
  const TrainConfig& config;
  Group& group;
  torch::Device device;
  std::string recipe = {};  // as TOML, kept in checkpoints and in the model
};

// Trains to the end, or until the observer asks to stop. With `resume` goes on from the newest
// checkpoint in config.run.out, or begins where there is none; without it refuses a folder that
// has one. Same recipe, same seed: the same weights to the bit on the CPU, however often it was
// cut off. Throws mala::Error when a loss or a gradient is no finite number, or the disk refuses.
Outcome train(const Job& job, Observer& observer, bool resume);

}  // namespace mala::train
