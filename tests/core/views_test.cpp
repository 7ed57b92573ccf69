// Views: which element stands where.
#include "mala/core/views.h"

#include <gtest/gtest.h>

#include <numeric>
#include <type_traits>
#include <vector>

namespace mala {
namespace {

std::vector<float> counted(size_t size) {
  std::vector<float> x(size);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

TEST(DenseHeads, HasTheLastDimFastest) {
  std::vector<float> x = counted(2 * 3 * 4 * 5);
  const HeadsView<float> view = dense_heads(x.data(), 2, 3, 4, 5);
  EXPECT_EQ(view.batch_stride, 60);
  EXPECT_EQ(view.head_stride, 20);
  EXPECT_EQ(view.token_stride, 5);
  EXPECT_EQ(view.dim_stride, 1);
  float next = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t d = 0; d < 5; ++d) EXPECT_EQ(view.head(b, h).at(i, d), next++);
}

TEST(HeadsView, HeadCarriesSizesAndStrides) {
  std::vector<float> x = counted(1000);
  const HeadsView<float> view{x.data(), 2, 3, 4, 5, 400, 100, 7, 2};
  const MatrixView<float> head = view.head(1, 2);
  EXPECT_EQ(head.data, x.data() + 600);
  EXPECT_EQ(head.rows, 4);
  EXPECT_EQ(head.cols, 5);
  EXPECT_EQ(head.row(3), x.data() + 600 + 21);
  EXPECT_EQ(head.at(3, 4), 600 + 21 + 8);
}

// A channels-first image (B, C, N) with C = H * D: tokens are neighbours in memory.
TEST(HeadsView, ReadsChannelsFirstImages) {
  constexpr int64_t kHeads = 2, kTokens = 6, kDim = 4;
  std::vector<float> image = counted(kHeads * kDim * kTokens);
  const HeadsView<float> view{image.data(),   1, kHeads, kTokens, kDim, kHeads * kDim * kTokens,
                              kDim * kTokens, 1, kTokens};
  EXPECT_EQ(view.head(0, 1).at(5, 3), (1 * kDim + 3) * kTokens + 5);
}

TEST(HeadsView, WritesWhatItPointsTo) {
  std::vector<float> x(40);
  dense_heads(x.data(), 1, 2, 4, 5).head(0, 1).at(2, 3) = 9;
  EXPECT_EQ(x[20 + 13], 9);
}

TEST(HeadsView, BecomesReadOnlyWithAllItsFields) {
  std::vector<float> x(1);
  const HeadsView<float> view{x.data(), 1, 2, 3, 4, 5, 6, 7, 8};
  const HeadsView<const float> same = view;
  EXPECT_EQ(same.data, view.data);
  EXPECT_EQ(same.batch, 1);
  EXPECT_EQ(same.heads, 2);
  EXPECT_EQ(same.tokens, 3);
  EXPECT_EQ(same.dim, 4);
  EXPECT_EQ(same.batch_stride, 5);
  EXPECT_EQ(same.head_stride, 6);
  EXPECT_EQ(same.token_stride, 7);
  EXPECT_EQ(same.dim_stride, 8);
  static_assert(!std::is_convertible_v<HeadsView<const float>, HeadsView<float>>);
}

}  // namespace
}  // namespace mala
