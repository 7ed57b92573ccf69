// How much memory torch takes.
#pragma once

#include <torch/types.h>

#include <functional>

#include "mala/tasks/training_task.h"
#include "mala/train/config.h"

namespace mala::train {

// The most bytes that torch held on the CPU at once in `run`, beyond what it held before.
int64_t peak_bytes(const std::function<void()>& run);

// The most bytes that tensors held at once on a GPU since the program began, or since
// `forget_gpu_peak`.
int64_t gpu_peak_bytes(torch::Device device);
void forget_gpu_peak(torch::Device device);

struct MemoryEstimate {
  int64_t parameters = 0;   // how many
  int64_t weights = 0;      // bytes of weights, gradients, both moments and averages
  int64_t activations = 0;  // bytes that one batch takes between forward and backward
  int64_t total() const { return weights + activations; }
};

// Measures one and two made-up examples on the CPU and draws the line on to a whole batch.
MemoryEstimate estimate_memory(tasks::TrainingTask& task, const TrainConfig& config);

}  // namespace mala::train
