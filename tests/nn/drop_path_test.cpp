// Branches that are left out in training.
#include "mala/nn/drop_path.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "mala/core/error.h"

namespace mala::nn {
namespace {

using torch::Tensor;

TEST(DropPath, LeavesOutWholeImagesAndKeepsTheMean) {
  torch::manual_seed(1);
  const Tensor branch = torch::ones({4000, 2, 3});
  const Tensor out = drop_path(branch, 0.25, true);
  const Tensor of_image = out.flatten(1);
  EXPECT_TRUE(torch::equal(of_image.amin(1), of_image.amax(1)));
  const double dropped = (of_image.amax(1) == 0).to(torch::kFloat32).mean().item<double>();
  EXPECT_NEAR(dropped, 0.25, 0.03);
  EXPECT_NEAR(out.mean().item<double>(), 1, 0.04);
}

TEST(DropPath, DoesNothingOutsideTraining) {
  const Tensor branch = torch::randn({4, 2});
  EXPECT_TRUE(torch::equal(drop_path(branch, 0.9, false), branch));
  EXPECT_TRUE(torch::equal(drop_path(branch, 0, true), branch));
}

TEST(DropPath, RisesEvenlyOverTheBlocks) {
  EXPECT_EQ(drop_path_of(0, 12, 0.1), 0);
  EXPECT_DOUBLE_EQ(drop_path_of(11, 12, 0.1), 0.1);
  EXPECT_DOUBLE_EQ(drop_path_of(2, 5, 0.4), 0.2);
  EXPECT_EQ(drop_path_of(0, 1, 0.4), 0);
}

TEST(DropPath, RefusesToLeaveOutEverything) {
  EXPECT_THROW(drop_path(torch::ones({1}), 1, true), Error);
  EXPECT_THROW(drop_path(torch::ones({1}), -0.1, true), Error);
}

}  // namespace
}  // namespace mala::nn
