// What a task brings to the trainer: data, model, loss and metric. The trainer brings the rest.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mala::tasks {

// Which part of every epoch this process takes.
struct Shard {
  int64_t rank = 0, world = 1;
};

// A batch of this process in the order of training. The same place gives the same batch.
struct Place {
  int64_t epoch = 0, batch = 0;
};

// A metric as a sum, so that the parts of several processes add up: its value is sum / weight.
struct Total {
  std::string name;
  double sum = 0, weight = 0;
};

// Adds up a tensor over all processes, in place.
using SumOverProcesses = std::function<void(torch::Tensor&)>;

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual torch::nn::Module& model() = 0;
  virtual std::string model_name() const = 0;

  // Of this process.
  virtual int64_t batch_size() const = 0;
  virtual int64_t batches_per_epoch() const = 0;

  // The next loss() is that of the batch at this place.
  virtual void seek(Place place) = 0;
  // The mean over the next batch, a scalar on the device, with its graph. Draws only from torch's
  // random numbers and from the place.
  virtual torch::Tensor loss(torch::Device device) = 0;
  // The same for as many made-up examples, which needs no data: for estimates and clocks.
  virtual torch::Tensor made_up_loss(int64_t examples, torch::Device device) = 0;

  // Of the model as it is, over this process's part of the data for evaluation; empty without
  // such data. The first is the one that the best model is chosen by.
  virtual std::vector<Total> evaluate(torch::Device device) = 0;
  virtual bool more_is_better() const = 0;

  // How deep a parameter lies: 0 next to the input, depth() - 1 next to the answer.
  virtual int64_t depth() const { return 1; }
  virtual int64_t depth_of(const std::string& /*parameter*/) const { return 0; }
  // Where the batches of several processes count as one, as for the statistics of batch norms.
  virtual void share_statistics(const SumOverProcesses& /*sum*/) {}
  // Whether the model can reckon activations twice instead of keeping them; then it does.
  virtual bool checkpoint_activations() { return false; }

  // Writes the model as it is to a file that prediction reads, with `facts` beside its weights.
  virtual void export_model(const std::string& path,
                            const std::map<std::string, std::string>& facts) = 0;

  // What the data had to say since the last call, such as files that could not be read.
  virtual std::vector<std::string> take_notices() { return {}; }
};

}  // namespace mala::tasks
