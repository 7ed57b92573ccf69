// Activations reckoned twice give the gradients of those that were kept.
#include "mala/nn/recompute.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "mala/nn/block.h"

namespace mala::nn {
namespace {

Block make_block() {
  torch::manual_seed(1);
  return Block(BlockOptions{.dim = 16, .heads = 1, .hidden = 24, .drop_path = 0.5});
}

struct Gradients {
  Tensor out, x;
  std::vector<Tensor> parameters;
};

Gradients run(Block block, bool twice) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({8, 4, 4, 16}).set_requires_grad(true);
  auto forward = [block](const Tensor& in) mutable { return block->forward(in); };
  const Tensor out = twice ? recompute(*block, forward, x) : forward(x);
  torch::rand({100});  // others draw in between
  out.square().sum().backward();
  Gradients found{out.detach(), x.grad(), {}};
  for (const Tensor& p : block->parameters()) found.parameters.push_back(p.grad());
  return found;
}

// The branches that were dropped stay dropped, or the gradients would be those of another model.
TEST(Recompute, GradientsAreTheSame) {
  const Gradients kept = run(make_block(), false), twice = run(make_block(), true);
  EXPECT_TRUE(torch::equal(twice.out, kept.out));
  EXPECT_TRUE(torch::equal(twice.x, kept.x));
  ASSERT_EQ(twice.parameters.size(), kept.parameters.size());
  for (size_t i = 0; i < kept.parameters.size(); ++i) {
    EXPECT_TRUE(torch::equal(twice.parameters[i], kept.parameters[i])) << i;
  }
}

TEST(Recompute, LeavesTheRandomNumbersOfOthersAlone) {
  const auto next = [](bool twice) {
    run(make_block(), twice);
    return torch::rand({3});
  };
  EXPECT_TRUE(torch::equal(next(true), next(false)));
}

TEST(Recompute, FrozenParametersGetNoGradient) {
  Block block = make_block();
  block->pos->weight.set_requires_grad(false);
  EXPECT_FALSE(run(block, true).parameters.empty());
  EXPECT_FALSE(block->pos->weight.grad().defined());
  EXPECT_TRUE(block->pos->bias.grad().defined());
}

}  // namespace
}  // namespace mala::nn
