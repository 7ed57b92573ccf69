// A running average of a model's weights, and the model with them in place of its own.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mala::train {

class AveragedWeights {
 public:
  // Begins with the weights as they are; buffers, such as the statistics of norms, are averaged
  // too.
  explicit AveragedWeights(const torch::nn::Module& model);

  // average = decay * average + (1 - decay) * weights; whole numbers are copied.
  void update(double decay);

  // Exchanges the model's weights with the average. A second time undoes it.
  void swap();

  using Visit = std::function<void(const std::string& name, torch::Tensor& tensor)>;
  void visit_state(const Visit& visit);

 private:
  struct Pair {
    std::string name;
    torch::Tensor live, average;
  };
  std::vector<Pair> pairs_;
  std::vector<torch::Tensor> live_, averages_;  // those of pairs_ that are averaged
};

}  // namespace mala::train
