// Narrow numbers in training: autocast around the forward pass, a loss scale for float16.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace mala::train {

// While it lives, torch reckons in this type where that is safe. float32: nothing happens.
class Autocast {
 public:
  Autocast(torch::Device device, const std::string& precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType device_;
  bool was_enabled_;
  torch::ScalarType type_before_;
};

// float16 has no small numbers: the loss is made larger, the gradients smaller again, and the
// factor halves when they overflow and doubles when they have not for long. Steps that overflow
// are left out. Any other precision has the factor 1.
class LossScale {
 public:
  LossScale(const std::string& precision, torch::Device device);

  bool is_on() const { return is_on_; }
  torch::Tensor scaled(const torch::Tensor& loss) const { return is_on_ ? loss * scale_ : loss; }

  // Makes the gradients as large as without a scale. 1 where one of them is no finite number, on
  // their device; 0 otherwise.
  torch::Tensor unscale(const std::vector<torch::Tensor>& gradients);
  void update(const torch::Tensor& is_broken);

  // Both are state that a checkpoint holds.
  torch::Tensor& scale() { return scale_; }
  torch::Tensor& steps_without_overflow() { return growth_; }

 private:
  bool is_on_;
  torch::Tensor scale_, growth_;
};

}  // namespace mala::train
