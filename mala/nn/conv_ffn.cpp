// The feed-forward part of MAViT.
#include "mala/nn/conv_ffn.h"

namespace mala::nn {

ConvFfnImpl::ConvFfnImpl(int64_t dim, int64_t hidden)
    : fc1(pointwise(dim, hidden)), fc2(pointwise(hidden, dim)), dwconv(depthwise(hidden, 3)) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
  register_module("dwconv", dwconv);
}

Tensor ConvFfnImpl::forward(const Tensor& pixels) {
  const Tensor hidden = torch::gelu(project(fc1, pixels));
  return project(fc2, hidden + convolve(dwconv, hidden));
}

}  // namespace mala::nn
