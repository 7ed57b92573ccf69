// Images inside the models: (B, H, W, C), pixel after pixel. That is what norms and projections
// over channels want, and a convolution sees the same memory as a channels-last image: from the
// patches to the head nothing is laid out anew.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/types.h>

namespace mala::nn {

using torch::Tensor;

struct GridSize {
  int64_t height = 0, width = 0;

  int64_t tokens() const { return height * width; }
};

inline GridSize grid_of(const Tensor& pixels) { return {pixels.size(1), pixels.size(2)}; }

// The same memory as torch's image layers name it: (B, C, H, W), and back.
inline Tensor as_image(const Tensor& pixels) { return pixels.permute({0, 3, 1, 2}); }
inline Tensor as_pixels(const Tensor& image) { return image.permute({0, 2, 3, 1}); }

inline Tensor convolve(torch::nn::Conv2d& conv, const Tensor& pixels) {
  return as_pixels(conv->forward(as_image(pixels)));
}

// A convolution of 1x1 is a projection of every pixel.
inline Tensor project(const torch::nn::Conv2d& conv, const Tensor& pixels) {
  return torch::linear(pixels, conv->weight.flatten(1), conv->bias);
}

// scale * project(conv, pixels), one factor for each channel.
Tensor project_scaled(const torch::nn::Conv2d& conv, const Tensor& pixels, const Tensor& scale);

// A square kernel that keeps the size of the image, one for each channel.
torch::nn::Conv2d depthwise(int64_t channels, int64_t kernel);
torch::nn::Conv2d pointwise(int64_t from, int64_t to);

}  // namespace mala::nn
