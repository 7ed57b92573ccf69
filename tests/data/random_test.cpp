// Random numbers: the published answers of Philox, and the shapes of the distributions.
#include "mala/data/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace mala::data {
namespace {

constexpr int kDraws = 20'000;
// Of a mean over the draws, in deviations: a fair generator exceeds it once in millions of tests,
// and the seeds are fixed.
constexpr double kDeviations = 5.0;

// From the known answers of the Random123 library.
TEST(Philox, GivesThePublishedWords) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kAll = 0xFFFFFFFF;
  EXPECT_EQ(philox({kAll, kAll, kAll, kAll}, {kAll, kAll}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamsDifferByEachOfTheirNumbers) {
  std::set<uint32_t> first;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40}) {
    for (const int64_t epoch : {0, 1}) {
      for (const Use use : {Use::kOrder, Use::kPicture, Use::kMix, Use::kReplacement}) {
        for (const int64_t place : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
          first.insert(Random(seed, epoch, use, place).bits());
        }
      }
    }
  }
  EXPECT_EQ(first.size(), 3u * 2 * 4 * 3);
  EXPECT_EQ(Random(5, 6, Use::kMix, 7).bits(), Random(5, 6, Use::kMix, 7).bits());
}

struct Moments {
  double mean = 0.0, variance = 0.0, least = INFINITY, most = -INFINITY;
};

template <typename Draw>
Moments moments(const Draw& draw) {
  Random random(1, 2, Use::kPicture, 3);
  double sum = 0.0, squares = 0.0;
  Moments found;
  for (int i = 0; i < kDraws; ++i) {
    const auto x = static_cast<double>(draw(random));
    sum += x;
    squares += x * x;
    found.least = std::min(found.least, x);
    found.most = std::max(found.most, x);
  }
  found.mean = sum / kDraws;
  found.variance = squares / kDraws - found.mean * found.mean;
  return found;
}

void expect_moments(const Moments& found, double mean, double variance) {
  EXPECT_NEAR(found.mean, mean, kDeviations * std::sqrt(variance / kDraws));
  EXPECT_NEAR(found.variance, variance, 0.06 * variance);  // about five deviations, or more
}

TEST(Random, DistributionsHaveTheirMeansAndVariances) {
  const Moments uniform = moments([](Random& r) { return r.uniform(); });
  expect_moments(uniform, 0.5, 1.0 / 12);
  EXPECT_GE(uniform.least, 0.0);
  EXPECT_LT(uniform.most, 1.0);
  expect_moments(moments([](Random& r) { return r.uniform(-3, 5); }), 1.0, 64.0 / 12);
  expect_moments(moments([](Random& r) { return r.normal(); }), 0.0, 1.0);
  expect_moments(moments([](Random& r) { return r.chance(0.2); }), 0.2, 0.16);
  const Moments below = moments([](Random& r) { return r.below(6); });
  expect_moments(below, 2.5, 35.0 / 12);
  EXPECT_EQ(below.least, 0);
  EXPECT_EQ(below.most, 5);
  for (const auto& [a, b] : {std::pair(0.8, 0.8), std::pair(1.0, 1.0), std::pair(2.0, 0.5)}) {
    const double variance = a * b / ((a + b) * (a + b) * (a + b + 1));
    const Moments beta = moments([&](Random& r) { return r.beta(a, b); });
    expect_moments(beta, a / (a + b), variance);
    EXPECT_GE(beta.least, 0.0);
    EXPECT_LE(beta.most, 1.0);
  }
}

TEST(Random, TinyShapesStayFinite) {
  const Moments beta = moments([](Random& r) { return r.beta(1e-3, 1e-3); });
  EXPECT_NEAR(beta.mean, 0.5, 0.05);
}

}  // namespace
}  // namespace mala::data
