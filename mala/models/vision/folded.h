// Layers with everything folded into their weights that inference need not reckon again. Folding
// happens in double and is rounded once. The weights are copies: training may go on.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include "mala/models/vision/packed.h"
#include "mala/nn/grid_attention.h"

namespace mala::models {

using torch::Tensor;

// A convolution over pixels, (B, H, W, C) in and out.
struct FoldedConv {
  Tensor weight, bias;  // the weight is empty where it is packed
  ConvShape shape = {};
  PackedConv packed = {};
  bool adds_input = false;  // x + conv(x)

  Tensor operator()(const Tensor& pixels) const;
  // gelu of that
  Tensor gelu(const Tensor& pixels) const;
};

// A projection of every pixel.
struct FoldedProjection {
  Tensor weight, bias;  // (to, from), empty where it is packed; (to)
  PackedLinear packed = {};

  Tensor operator()(const Tensor& pixels) const;
  // gelu of that
  Tensor gelu(const Tensor& pixels) const;
  // sum + that; `sum` is used up
  Tensor added_to(Tensor sum, const Tensor& pixels) const;
};

// Queries, keys, values and the gate. The values lie densely in memory of their own, so that their
// convolution reads them as they are: in one product of four, or, packed, in one of two products.
struct FoldedQuartet {
  Tensor weight, bias;              // (4, dim, dim) from rows to columns, (4, 1, dim), or empty
  FoldedProjection others, values;  // queries, keys and gate in one; or empty

  nn::PackedParts operator()(const Tensor& pixels) const;
};

// A layer norm over channels.
struct FoldedNorm {
  Tensor weight, bias;
  double eps = 0;

  Tensor operator()(const Tensor& pixels) const;
};

// conv, then norm
FoldedConv fold(const torch::nn::Conv2dImpl& conv, const torch::nn::BatchNorm2dImpl& norm);
// x + conv(x), where conv has a kernel for each channel. One more in its centre says the same, but
// for narrow types, which would lose the last digits of the kernel to it.
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
