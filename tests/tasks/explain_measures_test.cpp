// Measures of maps against values that can be worked out by hand.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "mala/tasks/explain/measures.h"

namespace mala::tasks {
namespace {

Tensor row(std::initializer_list<double> values) {
  return torch::tensor(at::ArrayRef<double>(values), torch::kFloat64);
}

double value_of(const Tensor& x) { return x.item<double>(); }

TEST(ExplainMeasures, SharesLeaveOutNegativeWeights) {
  EXPECT_TRUE(torch::allclose(shares_of(row({3, -5, 1})), row({0.75, 0, 0.25})));
  EXPECT_TRUE(torch::allclose(shares_of(row({-1, -2})), row({0.5, 0.5})));
}

TEST(ExplainMeasures, EntropyIsOneForEvenMapsAndZeroForOneToken) {
  EXPECT_NEAR(value_of(entropy_of(row({2, 2, 2, 2}))), 1, 1e-12);
  EXPECT_NEAR(value_of(entropy_of(row({0, 7, 0, 0}))), 0, 1e-12);
  EXPECT_NEAR(value_of(entropy_of(row({1, 1, 0, 0}))), 0.5, 1e-12);
  EXPECT_NEAR(value_of(entropy_of(row({1}))), 0, 1e-12);  // one token: nothing to choose from
}

TEST(ExplainMeasures, DivergenceIsZeroFromItselfAndFiniteFromZeros) {
  torch::manual_seed(1);
  const Tensor map = torch::softmax(9 * torch::randn({3, 5, 50}, torch::kFloat64), -1);
  EXPECT_LT(divergence(map, map).abs().max().item<double>(), 1e-12);
  EXPECT_LT(divergence(map, 3 * map).abs().max().item<double>(), 1e-12);  // shares, not sizes
  EXPECT_NEAR(value_of(divergence(row({1, 1}), row({3, 1}))),
              0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-12);
  const double missed = value_of(divergence(row({1, 0}), row({0, 1})));
  EXPECT_GT(missed, 5);
  EXPECT_TRUE(std::isfinite(missed));
}

TEST(ExplainMeasures, RanksAreSpearmans) {
  EXPECT_NEAR(value_of(rank_correlation(row({1, 2, 3, 4}), row({-9, 0, 5, 1e6}))), 1, 1e-12);
  EXPECT_NEAR(value_of(rank_correlation(row({1, 2, 3}), row({3, 2, 1}))), -1, 1e-12);
  // By the formula 1 - 6 sum d^2 / (n (n^2 - 1)): d = 1, 1, 0, so 1 - 12 / 24.
  EXPECT_NEAR(value_of(rank_correlation(row({1, 2, 3}), row({2, 1, 3}))), 0.5, 1e-12);
  // Ties share their rank: 1.5, 1.5, 3 against 1, 2, 3.
  EXPECT_NEAR(value_of(rank_correlation(row({4, 4, 9}), row({1, 2, 3}))), std::sqrt(0.75), 1e-12);
  EXPECT_EQ(value_of(rank_correlation(row({1, 1, 1}), row({1, 2, 3}))), 0);
}

TEST(ExplainMeasures, NegativePartIsAPartOfAllWeight) {
  EXPECT_NEAR(value_of(negative_part(row({3, -1}))), 0.25, 1e-12);
  EXPECT_EQ(value_of(negative_part(row({0, 0}))), 0);
}

}  // namespace
}  // namespace mala::tasks
