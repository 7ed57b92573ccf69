// What ConvFfn does between its projections, with less memory than autograd would take.
#pragma once

#include "mala/nn/pixels.h"

namespace mala::nn {

// h + conv(h), h = gelu(x), for a depthwise convolution that keeps the size. Of pixels only x is
// kept for the gradient; h, which convolution and GELU would keep too, is reckoned again.
Tensor gelu_with_neighbours(const torch::nn::Conv2d& conv, const Tensor& x);

}  // namespace mala::nn
