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
  FoldedConv folded{.weight = weight.clone(torch::MemoryFormat::ChannelsLast),
                    .bias = bias.clone(),
                    .shape = {.kernel = weight.size(2),
                              .stride = conv.options.stride()->at(0),
                              .groups = conv.options.groups()}};
  if (can_pack(weight)) {
    folded.packed = PackedConv(folded.weight, folded.shape);
    folded.weight.reset();
  }
  return folded;
}

FoldedProjection folded_projection(const Tensor& weight, const Tensor& bias) {
  FoldedProjection folded{.weight = weight.clone(), .bias = bias.clone()};
  if (can_pack(weight)) {
    folded.packed = PackedLinear(folded.weight);
    folded.weight.reset();
  }
  return folded;
}

}  // namespace

Tensor FoldedConv::operator()(const Tensor& pixels) const {
  const Tensor image = nn::as_image(pixels);
  if (packed.is_packed()) {
    return nn::as_pixels(adds_input ? packed.apply_add(image, bias, image)
                                    : packed.apply(image, bias));
  }
  Tensor out = torch::conv2d(image, weight, bias, shape.stride, shape.padding(), 1, shape.groups);
  if (adds_input) out.add_(image);
  return nn::as_pixels(out);
}

Tensor FoldedConv::gelu(const Tensor& pixels) const {
  if (packed.is_packed() && !adds_input) {
    return nn::as_pixels(packed.apply_gelu(nn::as_image(pixels), bias));
  }
  Tensor out = (*this)(pixels);
  return torch::gelu_(out);
}

Tensor FoldedProjection::operator()(const Tensor& pixels) const {
  return packed.is_packed() ? packed.apply(pixels, bias) : torch::linear(pixels, weight, bias);
}

Tensor FoldedProjection::gelu(const Tensor& pixels) const {
  if (packed.is_packed()) return packed.apply_gelu(pixels, bias);
  Tensor out = torch::linear(pixels, weight, bias);
  return torch::gelu_(out);
}

Tensor FoldedProjection::added_to(Tensor sum, const Tensor& pixels) const {
  if (packed.is_packed()) return packed.apply_add(pixels, bias, sum);
  return sum.add_(torch::linear(pixels, weight, bias));
}

nn::PackedParts FoldedQuartet::operator()(const Tensor& pixels) const {
  if (values.packed.is_packed()) {
    const auto three = others(pixels).chunk(3, -1);
    return {three[0], three[1], values(pixels), three[2]};
  }
  const Tensor rows = pixels.flatten(0, 2);
  const Tensor products =
      torch::baddbmm(bias, rows.expand({4, rows.size(0), rows.size(1)}), weight);
  const Tensor four = products.unflatten(1, {pixels.size(0), pixels.size(1), pixels.size(2)});
  return {four[0], four[1], four[2], four[3]};
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
  const bool is_narrow = weight.element_size() < 4;
  const int64_t centre = weight.size(2) / 2;
  if (!is_narrow) weight.select(2, centre).select(2, centre).add_(1);
  FoldedConv folded = folded_conv(conv, weight, conv.bias.detach());
  folded.adds_input = is_narrow;
  return folded;
}

FoldedConv fold(const torch::nn::Conv2dImpl& conv) {
  return folded_conv(conv, conv.weight.detach(), conv.bias.detach());
}

FoldedNorm fold(const torch::nn::LayerNormImpl& norm) {
  return {norm.weight.detach().clone(), norm.bias.detach().clone(), norm.options.eps()};
}

FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv) {
  return folded_projection(conv.weight.detach().flatten(1), conv.bias.detach());
}

FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv,
                                 const torch::nn::BatchNorm2dImpl& norm) {
  const auto [weight, bias] = folded_weights(conv, affine_of(norm));
  return folded_projection(weight.flatten(1), bias);
}

FoldedProjection fold_projection(const torch::nn::Conv2dImpl& conv, const Tensor& scale) {
  const Tensor wide = scale.detach().flatten().to(torch::kFloat64);
  const auto [weight, bias] = folded_weights(conv, {wide, torch::zeros_like(wide)});
  return folded_projection(weight.flatten(1), bias);
}

FoldedQuartet fold_quartet(const torch::nn::Conv2dImpl& conv) {
  const int64_t dim = conv.weight.size(1);
  const Tensor weight = conv.weight.detach().view({4, dim, dim});
  const Tensor bias = conv.bias.detach().view({4, dim});
  if (!can_pack(weight)) {
    return {.weight = weight.transpose(1, 2).contiguous(),
            .bias = bias.unsqueeze(1).clone(),
            .others = {},
            .values = {}};
  }
  const auto without_values = [](const Tensor& four) {
    return torch::cat({four.narrow(0, 0, 2), four.narrow(0, 3, 1)}).flatten(0, 1);
  };
  return {.weight = {},
          .bias = {},
          .others = folded_projection(without_values(weight), without_values(bias)),
          .values = folded_projection(weight[2], bias[2])};
}

}  // namespace mala::models
