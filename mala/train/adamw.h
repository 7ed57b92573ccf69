// AdamW over groups of parameters, each step one fused kernel for every group.
#pragma once

#include <functional>
#include <string>

#include "mala/train/parameters.h"

namespace mala::train {

class AdamW {
 public:
  AdamW(std::vector<ParameterGroup> groups, const OptimizerConfig& config, torch::Device device);

  // Where `is_broken`, a float on the device, is 1, nothing changes at all, the count of steps
  // neither: so a gradient that is no number does no harm, and nobody waits for the device.
  void step(double lr, const torch::Tensor& is_broken);

  // Frees the gradients.
  void clear_gradients();
  // Of every group, in order; throws mala::Error for a parameter without one.
  std::vector<torch::Tensor> gradients() const;
  std::vector<torch::Tensor> parameters() const;
  std::vector<std::string> names() const;

  // Everything that a checkpoint must hold: "mean.NAME", "square.NAME" and "steps".
  using Visit = std::function<void(const std::string& name, torch::Tensor& tensor)>;
  void visit_state(const Visit& visit);

 private:
  struct Moments {
    std::vector<torch::Tensor> mean, square;
  };

  std::vector<ParameterGroup> groups_;
  std::vector<Moments> moments_;
  torch::Tensor steps_;  // float, on the device
  OptimizerConfig config_;
};

}  // namespace mala::train
