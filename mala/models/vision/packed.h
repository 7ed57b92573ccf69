// Layers on a CPU by oneDNN, through torch: weights are laid out once for the processor, and an
// activation or a sum happens while results are still in its registers.
#pragma once

#include <torch/types.h>

namespace mala::models {

using torch::Tensor;

// Whether oneDNN has something faster for such weights: on a CPU, in float32 and, where the
// processor multiplies it, bfloat16.
bool can_pack(const Tensor& weight);

// A projection. Until it is made from a weight it is not packed, and nothing may be called.
class PackedLinear {
 public:
  PackedLinear() = default;
  explicit PackedLinear(const Tensor& weight);  // (to, from)

  bool is_packed() const { return weight_.defined(); }

  // (..., from) -> (..., to)
  Tensor apply(const Tensor& x, const Tensor& bias) const;
  Tensor apply_gelu(const Tensor& x, const Tensor& bias) const;
  // sum + apply(x, bias)
  Tensor apply_add(const Tensor& x, const Tensor& bias, const Tensor& sum) const;

 private:
  Tensor weight_;
};

struct ConvShape {
  int64_t kernel = 1, stride = 1, groups = 1;

  int64_t padding() const { return kernel / 2; }
};

// A convolution of images (B, C, H, W) that lie channels-last, and so do its results.
class PackedConv {
 public:
  PackedConv() = default;
  PackedConv(const Tensor& weight, const ConvShape& shape);  // (to, from / groups, K, K)

  bool is_packed() const { return weight_.defined(); }

  Tensor apply(const Tensor& image, const Tensor& bias) const;
  Tensor apply_gelu(const Tensor& image, const Tensor& bias) const;
  // sum + apply(image, bias)
  Tensor apply_add(const Tensor& image, const Tensor& bias, const Tensor& sum) const;

 private:
  Tensor apply_with(const char* activation, const Tensor& image, const Tensor& bias) const;

  Tensor weight_;
  ConvShape shape_;
};

}  // namespace mala::models
