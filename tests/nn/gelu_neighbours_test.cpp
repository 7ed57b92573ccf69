// GELU and a look at the neighbours, against the same with plain torch functions.
#include "mala/nn/gelu_neighbours.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace mala::nn {
namespace {

Tensor by_formula(torch::nn::Conv2d& conv, const Tensor& x) {
  const Tensor h = torch::gelu(x);
  return h + convolve(conv, h);
}

struct Found {
  Tensor out, x, weight, bias;
};

template <class Function>
Found run(const Function& function, torch::nn::Conv2d& conv, const Tensor& pixels) {
  const Tensor x = pixels.detach().clone().set_requires_grad(true);
  conv->zero_grad(/*set_to_none=*/true);
  const Tensor out = function(conv, x);
  torch::manual_seed(3);
  (out * torch::randn_like(out)).sum().backward();
  return {out.detach(), x.grad(), conv->weight.grad(), conv->bias.grad()};
}

double difference(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

void expect_close(const Found& found, const Found& wanted, double tolerance) {
  EXPECT_LE(difference(found.out, wanted.out), tolerance);
  EXPECT_LE(difference(found.x, wanted.x), tolerance);
  EXPECT_LE(difference(found.weight, wanted.weight), tolerance);
  EXPECT_LE(difference(found.bias, wanted.bias), tolerance);
}

TEST(GeluWithNeighbours, HasTheGradientsOfItsFormula) {
  for (const int64_t kernel : {3, 5}) {
    torch::manual_seed(1);
    torch::nn::Conv2d conv = depthwise(24, kernel);
    conv->to(torch::kDouble);
    const Tensor x = torch::randn({3, 7, 5, 24}, torch::kDouble);
    expect_close(run(gelu_with_neighbours, conv, x), run(by_formula, conv, x), 1e-12);
  }
}

TEST(GeluWithNeighbours, WorksUnderAutocast) {
  torch::manual_seed(1);
  torch::nn::Conv2d conv = depthwise(16, 3);
  const Tensor x = torch::randn({2, 6, 6, 16}).to(torch::kBFloat16);
  const auto cast = [&](auto function) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const Found found = run(function, conv, x);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return found;
  };
  const Found found = cast(gelu_with_neighbours);
  EXPECT_EQ(found.out.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(found.weight.scalar_type(), torch::kFloat32);
  expect_close(found, cast(by_formula), 2e-2);
}

TEST(GeluWithNeighbours, ReckonsNoGradientOfWhatIsFrozen) {
  torch::nn::Conv2d conv = depthwise(8, 3);
  conv->weight.set_requires_grad(false);
  const Tensor x = torch::randn({1, 4, 4, 8}).set_requires_grad(true);
  gelu_with_neighbours(conv, x).sum().backward();
  EXPECT_FALSE(conv->weight.grad().defined());
  EXPECT_TRUE(conv->bias.grad().defined());
  EXPECT_TRUE(x.grad().defined());
  gelu_with_neighbours(conv, x.detach()).sum().backward();  // nobody asks for that of the pixels
}

}  // namespace
}  // namespace mala::nn
