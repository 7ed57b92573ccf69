// Overlap of strided tensors, against all addresses written down.
#include "mala/core/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace mala {
namespace {

// The addresses of all elements, in order; nothing is too slow for a test.
std::vector<uintptr_t> addresses(const Footprint& f) {
  std::vector<uintptr_t> all;
  for (int64_t a = 0; a < f.sizes[0]; ++a)
    for (int64_t b = 0; b < f.sizes[1]; ++b)
      for (int64_t c = 0; c < f.sizes[2]; ++c)
        for (int64_t d = 0; d < f.sizes[3]; ++d)
          all.push_back(f.address + f.bytes * (a * f.strides[0] + b * f.strides[1] +
                                               c * f.strides[2] + d * f.strides[3]));
  return all;
}

Footprint at(uintptr_t address, std::array<int64_t, 4> sizes, std::array<int64_t, 4> strides) {
  return {.address = address, .bytes = 4, .sizes = sizes, .strides = strides};
}

TEST(OverlapsItself, SaysNoForUsualLayouts) {
  EXPECT_FALSE(overlaps_itself(at(64, {2, 3, 5, 8}, {120, 40, 8, 1})));    // (B, H, N, D)
  EXPECT_FALSE(overlaps_itself(at(64, {2, 3, 5, 8}, {120, 8, 24, 1})));    // (B, N, H, D)
  EXPECT_FALSE(overlaps_itself(at(64, {2, 3, 5, 8}, {480, 8, 96, 1})));    // packed
  EXPECT_FALSE(overlaps_itself(at(64, {2, 3, 5, 8}, {120, 40, 1, 5})));    // channels-first
  EXPECT_FALSE(overlaps_itself(at(640, {2, 3, 5, 8}, {120, 40, -8, 1})));  // reversed
  EXPECT_FALSE(overlaps_itself(at(64, {1, 1, 5, 8}, {0, 0, 8, 1})));       // strides of size one
}

TEST(OverlapsItself, SaysYesForSharedElements) {
  EXPECT_TRUE(overlaps_itself(at(64, {2, 3, 5, 8}, {0, 40, 8, 1})));
  EXPECT_TRUE(overlaps_itself(at(64, {1, 1, 5, 8}, {0, 0, 7, 1})));
  EXPECT_TRUE(overlaps_itself(at(64, {1, 1, 5, 8}, {0, 0, 8, 0})));
  EXPECT_TRUE(overlaps_itself(at(64, {1, 1, 5, 8}, {0, 0, 1, 1})));
}

TEST(Overlap, TellsPartsOfOneProjectionApart) {
  const std::array<int64_t, 4> sizes{2, 3, 5, 8}, strides{480, 8, 96, 1};
  const Footprint q = at(1024, sizes, strides), k = at(1024 + 24 * 4, sizes, strides);
  EXPECT_FALSE(overlap(q, k));
  EXPECT_TRUE(overlap(q, q));
  EXPECT_TRUE(overlap(q, at(1024 + 23 * 4, sizes, strides)));
}

TEST(Overlap, TellsNeighboursApart) {
  const std::array<int64_t, 4> sizes{1, 1, 4, 8}, strides{32, 32, 8, 1};
  EXPECT_FALSE(overlap(at(1024, sizes, strides), at(1024 + 32 * 4, sizes, strides)));
  EXPECT_TRUE(overlap(at(1024, sizes, strides), at(1024 + 31 * 4, sizes, strides)));
}

// Wherever elements are shared the answer must be yes; "no" must never be wrong.
TEST(Overlap, NeverMissesASharedElement) {
  std::mt19937 random(5);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int64_t shared = 0, apart = 0, told_apart = 0;
  for (int round = 0; round < 3000; ++round) {
    auto draw = [&] {
      return at(100000 + 4 * below(40), {1 + below(2), 1 + below(3), 1 + below(4), 1 + below(5)},
                {below(60) - 10, below(30) - 5, below(20) - 5, 1 + below(4)});
    };
    const Footprint a = draw(), b = draw();
    const auto a_all = addresses(a), b_all = addresses(b);
    const std::set<uintptr_t> a_set(a_all.begin(), a_all.end());
    bool truth = false;
    for (const uintptr_t address : b_all) truth = truth || a_set.contains(address);
    if (truth) {
      EXPECT_TRUE(overlap(a, b));
      EXPECT_TRUE(overlap(b, a));
    }
    if (a_set.size() < a_all.size()) {
      EXPECT_TRUE(overlaps_itself(a));
    }
    shared += truth;
    apart += !truth;
    told_apart += !truth && !overlap(a, b);
  }
  EXPECT_GT(shared, 300);
  EXPECT_GT(apart, 300);
  EXPECT_GT(told_apart, apart * 9 / 10);  // exact, but for those too wild to untangle
}

}  // namespace
}  // namespace mala
