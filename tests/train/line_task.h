// A small task for the trainer's tests: two layers with a layer norm between them learn which side
// of a curve a point lies on. Batches follow from their place alone.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "mala/models/tensors.h"
#include "mala/tasks/training_task.h"

namespace mala::test {

class PointsModelImpl : public torch::nn::Module {
 public:
  explicit PointsModelImpl(double dropout);

  torch::Tensor forward(const torch::Tensor& points);

  torch::nn::Linear first, second;
  torch::nn::LayerNorm norm;
  torch::Tensor scale;  // (1, 16): more than one dimension, so it is decayed
  double dropout;
};
TORCH_MODULE(PointsModel);

struct LineOptions {
  int64_t batch = 8, batches = 6;
  tasks::Shard shard = {};
  double dropout = 0.1;
  int64_t broken_batch = -1;  // within epoch 0, whose points are infinite
};

class LineTask : public tasks::TrainingTask {
 public:
  explicit LineTask(const LineOptions& options = {});

  torch::nn::Module& model() override { return *net; }
  std::string model_name() const override { return "points"; }
  int64_t batch_size() const override { return options_.batch; }
  int64_t batches_per_epoch() const override { return options_.batches; }
  void seek(tasks::Place place) override { place_ = place; }
  torch::Tensor loss(torch::Device device) override;
  torch::Tensor made_up_loss(int64_t examples, torch::Device device) override;
  std::vector<tasks::Total> evaluate(torch::Device device) override;
  bool more_is_better() const override { return true; }
  int64_t depth() const override { return 2; }
  int64_t depth_of(const std::string& name) const override { return name.starts_with("second"); }
  void export_model(const std::string& path,
                    const std::map<std::string, std::string>& facts) override;

  // Parameters, one after the other.
  std::vector<float> weights() const;

  PointsModel net;

 private:
  torch::Tensor points_at(int64_t epoch, int64_t batch, int64_t count) const;

  LineOptions options_;
  tasks::Place place_;
};

}  // namespace mala::test
