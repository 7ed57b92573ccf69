// Sizes, crops and normalised numbers.
#include "mala/data/image/prepare.h"

#include <gtest/gtest.h>

#include "tests/support/refusals.h"

namespace mala::data {
namespace {

Image numbered(Size size) {
  Image image(size);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i);
  return image;
}

TEST(Prepare, ShortSideKeepsTheProportion) {
  EXPECT_EQ(with_short_side({500, 375}, 256), (Size{341, 256}));
  EXPECT_EQ(with_short_side({375, 500}, 256), (Size{256, 341}));
  EXPECT_EQ(with_short_side({20, 20}, 256), (Size{256, 256}));
  EXPECT_TRUE(test::says(test::refusal([] { with_short_side({0, 3}, 5); }), "at least 1"));
}

TEST(Prepare, ShortSideRefusesResultsBeyondTheLimit) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_EQ(with_short_side({10'000, 1}, 100), (Size{1'000'000, 100}));
  EXPECT_EQ(with_short_side({20'000, 20'000}, 15'000), (Size{15'000, 15'000}));  // a smaller one
  struct Case {
    Size size;
    int64_t short_side;
  };
  const Case larger[] = {{{10'001, 1}, 100}, {{1, 10'001}, 100}, {{1, 1}, 10'001}};
  for (const auto& [size, side] : larger) {
    const auto run = [size = size, side = side] { with_short_side(size, side); };
    EXPECT_TRUE(test::says(test::refusal(run), "more than the limit of 100000000 pixels"));
  }
  const Case unheard_of[] = {{{3, 2}, kHuge}, {{kHuge, kHuge}, 256}};
  for (const auto& [size, side] : unheard_of) {
    const auto run = [size = size, side = side] { with_short_side(size, side); };
    EXPECT_TRUE(test::says(test::refusal(run), "no picture has sides of that length"));
  }
}

// torchvision rounds half margins to the even number: of 3 to 2, of 1 to 0, of 5 to 2.
TEST(Prepare, CropsTheMiddle) {
  const Image image = numbered({7, 6});
  const Image crop = centre_crop(image, {4, 1});
  EXPECT_EQ(crop.size, (Size{4, 1}));
  EXPECT_EQ(crop.row(0)[0], image.row(2)[2 * 3]);
  EXPECT_EQ(crop.row(0)[11], image.row(2)[5 * 3 + 2]);
  EXPECT_EQ(centre_crop(image, {6, 6}).row(0)[0], image.row(0)[0]);
  EXPECT_EQ(centre_crop(image, image.size).pixels, image.pixels);
  EXPECT_TRUE(test::says(test::refusal([&] { centre_crop(image, {8, 6}); }), "resize the picture"));
}

TEST(Prepare, NormalizesInBothOrders) {
  const Image image = numbered({2, 2});
  const Normalization plain{{0.5f, 0.25f, 0}, {0.5f, 2, 1}};
  std::vector<float> planes(12), pixels(12);
  normalize(image, plain, PixelOrder::kPlanes, planes);
  normalize(image, plain, PixelOrder::kPixels, pixels);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 4; ++i) {
      const float level = static_cast<float>(i * 3 + c) / 255.0f;
      const float wanted = (level - plain.mean[c]) / plain.deviation[c];
      EXPECT_EQ(planes[c * 4 + i], wanted);
      EXPECT_EQ(pixels[i * 3 + c], wanted);
    }
  }
  const auto short_of_one = [&] {
    normalize(image, plain, PixelOrder::kPixels, std::span(pixels).first(11));
  };
  EXPECT_TRUE(test::says(test::refusal(short_of_one), "room for 11 numbers"));
}

}  // namespace
}  // namespace mala::data
