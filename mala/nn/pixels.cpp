// The convolutions that MAViT is built of.
#include "mala/nn/pixels.h"

namespace mala::nn {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

Conv2d depthwise(int64_t channels, int64_t kernel) {
  return Conv2d(Conv2dOptions(channels, channels, kernel).padding(kernel / 2).groups(channels));
}

Conv2d pointwise(int64_t from, int64_t to) { return Conv2d(Conv2dOptions(from, to, 1)); }

}  // namespace mala::nn
