// A function of autograd: GELU costs one traversal, its result is the widest image of a block.
#include "mala/nn/gelu_neighbours.h"

#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/gelu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

namespace mala::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

class GeluNeighbours : public torch::autograd::Function<GeluNeighbours> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
    context->save_for_backward({x, weight});
    const Tensor h = torch::gelu(x);
    Tensor out = torch::conv2d(as_image(h), weight, bias, 1, weight.size(2) / 2, 1, weight.size(0));
    return as_pixels(out.add_(as_image(h)));
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const tensor_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor g = as_image(gradients[0]);
    const int64_t channels = weight.size(0), padding = weight.size(2) / 2;
    auto [g_h, g_weight, g_bias] = at::convolution_backward(
        g, as_image(torch::gelu(x)), weight.to(x.scalar_type()), at::IntArrayRef({channels}),
        {1, 1}, {padding, padding}, {1, 1}, /*transposed=*/false, {0, 0}, channels,
        {context->needs_input_grad(0), context->needs_input_grad(1), context->needs_input_grad(2)});
    const auto wide = [&](const Tensor& found) {
      return found.defined() ? found.to(weight.scalar_type()) : found;
    };
    const Tensor g_x = g_h.defined() ? at::gelu_backward(as_pixels(g_h.add_(g)), x) : Tensor();
    return {g_x, wide(g_weight), wide(g_bias)};
  }
};

}  // namespace

Tensor gelu_with_neighbours(const torch::nn::Conv2d& conv, const Tensor& x) {
  return GeluNeighbours::apply(x, conv->weight, conv->bias);
}

}  // namespace mala::nn
