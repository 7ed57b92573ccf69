// Projections on a CPU by oneDNN, through torch: weights are laid out once for the processor, and
// an activation or a sum happens while results are still in its registers.
#pragma once

#include <torch/types.h>

namespace mala::models {

using torch::Tensor;

class PackedLinear {
 public:
  // Not packed: fits() is false, and nothing else may be called.
  PackedLinear() = default;
  // (to, from). Stays unpacked where oneDNN has nothing faster: on other devices, and for types
  // other than float32 and, where the processor multiplies it, bfloat16.
  explicit PackedLinear(const Tensor& weight);

  // Whether it is packed for numbers such as these.
  bool fits(const Tensor& x) const {
    return weight_.defined() && x.is_cpu() && x.scalar_type() == weight_.scalar_type();
  }

  // (..., from) -> (..., to)
  Tensor apply(const Tensor& x, const Tensor& bias) const;
  Tensor apply_gelu(const Tensor& x, const Tensor& bias) const;
  // sum + apply(x, bias)
  Tensor apply_add(const Tensor& x, const Tensor& bias, const Tensor& sum) const;

 private:
  Tensor weight_;
};

}  // namespace mala::models
