// The processes of one run, and what they tell each other.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "mala/tasks/training_task.h"

namespace mala::train {

// What torchrun says of this process in its environment (RANK, WORLD_SIZE, LOCAL_RANK,
// MASTER_ADDR, MASTER_PORT); one process where it says nothing.
struct Launch {
  int64_t rank = 0, world = 1, local_rank = 0;
  std::string address = {};
  int64_t port = 0;

  tasks::Shard shard() const { return {rank, world}; }
};

// Throws mala::Error when some of it is missing or wrong.
Launch launch_of_environment();

// auto, cpu or cuda, and which of several GPUs. Throws when there is none that was asked for.
torch::Device choose_device(const std::string& word, const Launch& launch);

class Group {
 public:
  // Meets the others: gloo on CPUs, NCCL on GPUs. Alone it does nothing.
  Group(const Launch& launch, torch::Device device);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int64_t rank() const { return launch_.rank; }
  int64_t world() const { return launch_.world; }
  bool is_first() const { return launch_.rank == 0; }

  // Adds up over all processes, in place, in the same order everywhere. Throws mala::Error when
  // another process is gone.
  void sum(torch::Tensor& tensor) const;
  // Those of the first process to all.
  void broadcast(const std::vector<torch::Tensor>& tensors) const;
  void wait_for_all() const;

  // From here on backward() averages the gradients of these parameters over processes, in buckets
  // that travel while it is still running.
  void reduce_gradients_of(const std::vector<torch::Tensor>& parameters);
  // With `is_last` false, gradients only add up in this process: more batches of the step follow.
  void backward(const torch::Tensor& loss, bool is_last) const;

 private:
  struct Links;
  Launch launch_;
  std::unique_ptr<Links> links_;  // none where the process is alone
  torch::Device device_;
};

}  // namespace mala::train
