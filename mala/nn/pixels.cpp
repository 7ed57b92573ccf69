// The convolutions that MAViT is built of.
#include "mala/nn/pixels.h"

namespace mala::nn {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

Conv2d depthwise(int64_t channels, int64_t kernel) {
  return Conv2d(Conv2dOptions(channels, channels, kernel).padding(kernel / 2).groups(channels));
}

Conv2d pointwise(int64_t from, int64_t to) { return Conv2d(Conv2dOptions(from, to, 1)); }

Tensor project_scaled(const Conv2d& conv, const Tensor& pixels, const Tensor& scale) {
  // Scaled weights leave no product that the scale's gradient would need. float16 has no room for
  // weights times the 1e-6 that large models begin with.
  if (pixels.scalar_type() == torch::kHalf) return scale * project(conv, pixels);
  const Tensor weight = scale.unsqueeze(1) * conv->weight.flatten(1);
  return torch::linear(pixels, weight, scale * conv->bias);
}

}  // namespace mala::nn
