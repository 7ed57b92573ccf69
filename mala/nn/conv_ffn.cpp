// The feed-forward part of MAViT.
#include "mala/nn/conv_ffn.h"

#include "mala/nn/gelu_neighbours.h"

namespace mala::nn {

ConvFfnImpl::ConvFfnImpl(int64_t dim, int64_t hidden)
    : fc1(pointwise(dim, hidden)), fc2(pointwise(hidden, dim)), dwconv(depthwise(hidden, 3)) {
  register_module("fc1", fc1);
  register_module("fc2", fc2);
  register_module("dwconv", dwconv);
}

Tensor ConvFfnImpl::hidden(const Tensor& pixels) {
  return gelu_with_neighbours(dwconv, project(fc1, pixels));
}

}  // namespace mala::nn
