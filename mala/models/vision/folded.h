// Layers with everything folded into their weights that inference need not reckon again. Folding
// happens in double and is rounded once. The weights are copies: training may go on.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include "mala/models/vision/packed_linear.h"
#include "mala/nn/pixels.h"

namespace mala::models {

using torch::Tensor;

// A convolution over pixels, (B, H, W, C) in and out.
struct FoldedConv {
  Tensor weight, bias;
  int64_t stride = 1, groups = 1;

  Tensor operator()(const Tensor& pixels) const;
};

// A projection of every pixel.
struct FoldedProjection {
  Tensor weight, bias;  // (to, from), (to)
  PackedLinear packed{weight};

  Tensor operator()(const Tensor& pixels) const;
  // gelu of that
  Tensor gelu(const Tensor& pixels) const;
  // sum + that; `sum` is used up
  Tensor added_to(Tensor sum, const Tensor& pixels) const;
};

// Four projections of the same width in one call that leaves each result densely in memory of its
// own, so that the convolution of the values reads them as they are.
struct FoldedQuartet {
  Tensor weight, bias;  // (4, dim, dim) from rows to columns, (4, 1, dim)

  // (4, B, H, W, C)
  Tensor operator()(const Tensor& pixels) const;
};

// A layer norm over channels.
struct FoldedNorm {
  Tensor weight, bias;
  double eps = 0;

  Tensor operator()(const Tensor& pixels) const;
};

// conv, then norm
FoldedConv fold(const torch::nn::Conv2dImpl& conv, const torch::nn::BatchNorm2dImpl& norm);
// x + conv(x), where conv has a kernel for each channel
FoldedConv fold_residual(const torch::nn::Conv2dImpl& conv);
FoldedConv fold(const torch::nn::Conv2dImpl& conv);
FoldedNorm fold(const torch::nn::LayerNormImpl& norm);

FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv);
// conv, then norm
FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv,
                                 const torch::nn::BatchNorm2dImpl& norm);
// scale * conv(x)
FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv, const Tensor& scale);
FoldedQuartet fold_quartet(const torch::nn::Conv2dImpl& conv);

}  // namespace mala::models
