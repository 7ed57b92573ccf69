// Folding weights, and the layers that use them.
#include "mala/models/vision/folded.h"

#include <utility>

namespace mala::models {
namespace {

// y = scale * x + shift for each channel, in double.
struct Affine {
  Tensor scale, shift;
};

Affine affine_of(const torch::nn::BatchNorm2dImpl& norm) {
  const auto wide = [](const Tensor& x) { return x.detach().to(torch::kFloat64); };
  const Tensor scale = wide(norm.weight) / (wide(norm.running_var) + norm.options.eps()).sqrt();
  return {scale, wide(norm.bias) - scale * wide(norm.running_mean)};
}

// The weights of conv with `affine` after it.
std::pair<Tensor, Tensor> folded_weights(const torch::nn::Conv2dImpl& conv, const Affine& affine) {
  const auto type = conv.weight.scalar_type();
  const Tensor weight = conv.weight.detach().to(torch::kFloat64) * affine.scale.view({-1, 1, 1, 1});
  const Tensor bias = conv.bias.detach().to(torch::kFloat64) * affine.scale + affine.shift;
  return {weight.to(type), bias.to(type)};
}

FoldedConv folded_conv(const torch::nn::Conv2dImpl& conv, const Tensor& weight,
                       const Tensor& bias) {
  return {.weight = weight.clone(torch::MemoryFormat::ChannelsLast),
          .bias = bias.clone(),
          .stride = conv.options.stride()->at(0),
          .groups = conv.options.groups()};
}

}  // namespace

Tensor FoldedConv::operator()(const Tensor& pixels) const {
  const int64_t padding = weight.size(2) / 2;
  return nn::as_pixels(
      torch::conv2d(nn::as_image(pixels), weight, bias, stride, padding, 1, groups));
}

Tensor FoldedProjection::operator()(const Tensor& pixels) const {
  return packed.fits(pixels) ? packed.apply(pixels, bias) : torch::linear(pixels, weight, bias);
}

Tensor FoldedProjection::gelu(const Tensor& pixels) const {
  if (packed.fits(pixels)) return packed.apply_gelu(pixels, bias);
  Tensor out = torch::linear(pixels, weight, bias);
  return torch::gelu_(out);
}

Tensor FoldedProjection::added_to(Tensor sum, const Tensor& pixels) const {
  if (packed.fits(pixels)) return packed.apply_add(pixels, bias, sum);
  return sum.add_(torch::linear(pixels, weight, bias));
}

Tensor FoldedQuartet::operator()(const Tensor& pixels) const {
  const Tensor rows = pixels.flatten(0, 2);
  const Tensor four = torch::baddbmm(bias, rows.expand({4, rows.size(0), rows.size(1)}), weight);
  return four.unflatten(1, {pixels.size(0), pixels.size(1), pixels.size(2)});
}

Tensor FoldedNorm::operator()(const Tensor& pixels) const {
  return torch::layer_norm(pixels, weight.sizes(), weight, bias, eps);
}

FoldedConv fold(const torch::nn::Conv2dImpl& conv, const torch::nn::BatchNorm2dImpl& norm) {
  const auto [weight, bias] = folded_weights(conv, affine_of(norm));
  return folded_conv(conv, weight, bias);
}

FoldedConv fold_residual(const torch::nn::Conv2dImpl& conv) {
  const Tensor weight = conv.weight.detach().clone();  // (C, 1, K, K)
  const int64_t centre = weight.size(2) / 2;
  weight.select(2, centre).select(2, centre).add_(1);
  return folded_conv(conv, weight, conv.bias.detach());
}

FoldedConv fold(const torch::nn::Conv2dImpl& conv) {
  return folded_conv(conv, conv.weight.detach(), conv.bias.detach());
}

FoldedNorm fold(const torch::nn::LayerNormImpl& norm) {
  return {norm.weight.detach().clone(), norm.bias.detach().clone(), norm.options.eps()};
}

FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv) {
  return {conv.weight.detach().flatten(1).clone(), conv.bias.detach().clone()};
}

FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv,
                                 const torch::nn::BatchNorm2dImpl& norm) {
  const auto [weight, bias] = folded_weights(conv, affine_of(norm));
  return {weight.flatten(1), bias};
}

FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv, const Tensor& scale) {
  const Tensor wide = scale.detach().flatten().to(torch::kFloat64);
  const auto [weight, bias] = folded_weights(conv, {wide, torch::zeros_like(wide)});
  return {weight.flatten(1), bias};
}

FoldedQuartet fold_quartet(const torch::nn::Conv2dImpl& conv) {
  const int64_t dim = conv.weight.size(1);
  return {.weight = conv.weight.detach().view({4, dim, dim}).transpose(1, 2).contiguous(),
          .bias = conv.bias.detach().view({4, 1, dim}).clone()};
}

}  // namespace mala::models
