// What holds of every resizing, whatever Pillow does.
#include "mala/data/image/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "mala/data/image/resample_weights.h"
#include "tests/support/refusals.h"

namespace mala::data {
namespace {

constexpr Filter kFilters[] = {Filter::kBilinear, Filter::kBicubic};

// Weights of an output pixel sum to one, up to the rounding of each of them.
TEST(Resize, WeightsSumToOneAndStayInside) {
  for (const Filter filter : kFilters) {
    for (const int64_t from : {1, 2, 7, 100}) {
      for (const int64_t to : {1, 3, 7, 64, 333}) {
        const ResampleWeights weights = make_weights(from, to, filter);
        for (int64_t i = 0; i < to; ++i) {
          const auto at = static_cast<size_t>(i);
          const int64_t count = weights.count[at];
          ASSERT_GT(count, 0);
          ASSERT_GE(weights.first[at], 0);
          ASSERT_LE(weights.first[at] + count, from);
          ASSERT_LE(count, weights.stride);
          const int64_t sum = std::accumulate(weights.of(i), weights.of(i) + count, int64_t{0});
          EXPECT_NEAR(static_cast<double>(sum), 1 << kWeightBits, static_cast<double>(count));
        }
      }
    }
  }
}

TEST(Resize, OneColourStaysThatColour) {
  for (const uint8_t level : {0, 1, 127, 254, 255}) {
    Image image({50, 31});
    std::fill(image.pixels.begin(), image.pixels.end(), level);
    for (const Filter filter : kFilters) {
      for (const Size size : {Size{20, 20}, Size{1, 1}, Size{400, 77}}) {
        const Image out = resize(image, size, filter);
        EXPECT_EQ(out.size, size);
        EXPECT_EQ(std::count(out.pixels.begin(), out.pixels.end(), level), std::ssize(out.pixels));
      }
    }
  }
}

// A mirrored picture resizes to the mirrored result, and channels do not mix.
TEST(Resize, KnowsNoLeftAndRight) {
  Image image({37, 1}), mirrored({37, 1});
  for (int64_t x = 0; x < 37; ++x) {
    image.row(0)[x * 3 + 1] = mirrored.row(0)[(36 - x) * 3 + 1] =
        static_cast<uint8_t>(x * x * 7 % 256);
  }
  const Image one = resize(image, {20, 1}), other = resize(mirrored, {20, 1});
  for (int64_t x = 0; x < 20; ++x) {
    EXPECT_EQ(one.row(0)[x * 3 + 1], other.row(0)[(19 - x) * 3 + 1]);
    EXPECT_EQ(one.row(0)[x * 3], 0);
    EXPECT_EQ(one.row(0)[x * 3 + 2], 0);
  }
}

TEST(Resize, RefusesSidesOfNothing) {
  const Image image({2, 2});
  EXPECT_TRUE(test::says(test::refusal([&] { resize(image, {0, 2}); }), "to 0 by 2 pixels"));
  EXPECT_TRUE(test::says(test::refusal([&] { resize(Image(), {2, 2}); }), "from 0 by 0"));
}

// Also where the result is small but the rows on the way to it are not, and where the number of
// pixels has no number.
TEST(Resize, RefusesResultsBeyondTheLimit) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const Image image({2, 2}), tall({1, 20'000});
  for (const Size size : {Size{100'000'001, 1}, Size{10'001, 10'000}, Size{kHuge, kHuge}}) {
    const auto run = [&] { resize(image, size); };
    EXPECT_TRUE(test::says(test::refusal(run), "more than the limit of 100000000"));
  }
  const auto on_the_way = [&] { resize(tall, {10'000, 2}); };
  EXPECT_TRUE(test::says(test::refusal(on_the_way), "10000 by 20000 pixels on the way"));
}

}  // namespace
}  // namespace mala::data
