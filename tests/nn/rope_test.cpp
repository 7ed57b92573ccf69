// What rotations by place promise: products depend on distances alone.
#include "mala/nn/rope.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace mala::nn {
namespace {

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

TEST(Rope, ProductsDependOnDistancesAlone) {
  torch::manual_seed(1);
  const GridSize grid{6, 9};
  const Tensor rotation = grid_rotation(grid, 32, torch::kCPU);
  const Tensor q = torch::randn({32}), k = torch::randn({32});
  const Tensor turned_q = rotate(q.expand({grid.tokens(), 32}).contiguous(), rotation);
  const Tensor turned_k = rotate(k.expand({grid.tokens(), 32}).contiguous(), rotation);
  const auto product = [&](int64_t row, int64_t column, int64_t down, int64_t right) {
    const int64_t from = row * grid.width + column;
    const int64_t to = (row + down) * grid.width + column + right;
    return turned_q[from].dot(turned_k[to]).item<double>();
  };
  EXPECT_NEAR(product(0, 0, 2, 3), product(3, 5, 2, 3), 1e-4);
  EXPECT_GT(std::abs(product(0, 0, 2, 3) - product(0, 0, 3, 2)), 1e-2);
  EXPECT_NEAR(product(0, 0, 0, 0), q.dot(k).item<double>(), 1e-4);
}

TEST(Rope, NarrowTypesAreTurnedInFloat32) {
  torch::manual_seed(2);
  const Tensor rotation = grid_rotation({40, 40}, 16, torch::kCPU);
  const Tensor x = torch::randn({2, 1600, 16}).to(torch::kBFloat16);
  const Tensor turned = rotate(x, rotation);
  EXPECT_EQ(turned.scalar_type(), torch::kBFloat16);
  const Tensor expected = rotate(x.to(torch::kFloat32), rotation).to(torch::kBFloat16);
  EXPECT_TRUE(torch::equal(turned, expected));
}

TEST(Rope, CheckpointsHoldEveryAngleTwice) {
  const Tensor angle = Rope(16)->named_buffers()["angle"];
  const Tensor expected =
      torch::tensor({1.0, 1.0, 0.0464159, 0.0464159, 0.00215443, 0.00215443, 1e-4, 1e-4});
  EXPECT_LT(largest(angle - expected), 1e-7);
}

}  // namespace
}  // namespace mala::nn
