// The stem of MAViT and the steps between its stages.
#include "mala/nn/patches.h"

#include "mala/core/error.h"

namespace mala::nn {
namespace {

using torch::nn::Conv2d;

Conv2d conv3x3(int64_t from, int64_t to, int64_t stride) {
  return Conv2d(torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1));
}

}  // namespace

void check_images(const Tensor& images) {
  check(images.dim() == 4 && images.size(1) == 3, "PatchEmbed", "images of shape ",
        c10::str(images.sizes()), "; needs (batch, 3, height, width)");
}

PatchEmbedImpl::PatchEmbedImpl(int64_t dim, int64_t stride) {
  check(stride == 2 || stride == 4, "PatchEmbed", "stride ", stride, "; needs 4, or 2 for small",
        " pictures");
  const int64_t half = dim / 2;
  const auto add = [&](int64_t from, int64_t to, int64_t step) {
    proj->push_back(conv3x3(from, to, step));
    proj->push_back(BatchNorm(to));
  };
  add(3, half, 2);
  for (int i = 0; i < 2; ++i) {
    proj->push_back(torch::nn::GELU());
    add(half, half, 1);
  }
  proj->push_back(torch::nn::GELU());
  add(half, dim, stride / 2);
  register_module("proj", proj);
}

Tensor PatchEmbedImpl::forward(const Tensor& images) {
  check_images(images);
  // The only change of layout in a model; nothing is copied where pictures come pixel by pixel.
  return as_pixels(proj->forward(images.contiguous(torch::MemoryFormat::ChannelsLast)));
}

DownsampleImpl::DownsampleImpl(int64_t from, int64_t to)
    : reduction(conv3x3(from, to, 2)), norm(to) {
  register_module("reduction", reduction);
  register_module("norm", norm);
}

Tensor DownsampleImpl::forward(const Tensor& pixels) {
  return as_pixels(norm->forward(reduction->forward(as_image(pixels))));
}

}  // namespace mala::nn
