// Batch norm whose batch may be spread over several processes.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <functional>

namespace mala::nn {

using torch::Tensor;

// Adds up a tensor over all processes, in place.
using SumOverProcesses = std::function<void(Tensor&)>;

// torch's own, with its names, until it is told how to reach the other processes: then it takes
// mean and variance over the pictures of all of them in training, on any device.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  explicit BatchNormImpl(int64_t channels)
      : BatchNorm2dImpl(torch::nn::BatchNormOptions(channels)) {}

  Tensor forward(const Tensor& image);  // (B, C, H, W)

  void share_statistics(SumOverProcesses sum) { sum_ = std::move(sum); }

 private:
  Tensor forward_shared(const Tensor& image);

  SumOverProcesses sum_;
};
TORCH_MODULE(BatchNorm);

// Tells every batch norm of the model.
void share_statistics(torch::nn::Module& model, const SumOverProcesses& sum);

}  // namespace mala::nn
