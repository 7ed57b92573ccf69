// What crops, flips, noise and mixes do, and how often.
#include <gtest/gtest.h>

#include <cmath>

#include "mala/data/augment/crop.h"
#include "mala/data/augment/erase.h"
#include "mala/data/augment/mix.h"
#include "mala/data/augment/picture.h"
#include "tests/data/support/made_pictures.h"

namespace mala::data {
namespace {

constexpr int kDraws = 4000;

Random random_at(int place) { return {11, 0, Use::kPicture, place}; }

TEST(ResizedCrop, StaysWithinItsRanges) {
  const Augmentation options{.scale_min = 0.2, .scale_max = 0.9};
  const Size size{500, 375};
  bool touched_left = false, touched_right = false;
  for (int i = 0; i < kDraws; ++i) {
    Random random = random_at(i);
    const Region region = draw_resized_crop(size, options, random);
    ASSERT_NO_THROW(check_region(region, size));
    const auto width = static_cast<double>(region.size.width);
    const auto height = static_cast<double>(region.size.height);
    const double part = width * height / (500.0 * 375.0);
    EXPECT_GT(part, 0.19);
    EXPECT_LT(part, 0.91);
    EXPECT_GT(width / height, 0.73);
    EXPECT_LT(width / height, 1.36);
    touched_left |= region.left == 0;
    touched_right |= region.left + region.size.width == size.width;
  }
  EXPECT_TRUE(touched_left && touched_right);
}

// Squares from a square always fit, so no area is drawn again.
TEST(ResizedCrop, AreasAreEquallyFrequent) {
  const Augmentation options{
      .scale_min = 0.2, .scale_max = 0.9, .ratio_min = 1.0, .ratio_max = 1.0};
  std::array<int, 7> counts{};
  for (int i = 0; i < kDraws; ++i) {
    Random random = random_at(i);
    const Size part = draw_resized_crop({1000, 1000}, options, random).size;
    const double area = static_cast<double>(part.width * part.height) / 1e6;
    ++counts[std::min<size_t>(static_cast<size_t>((area - 0.2) * 10), 6)];
  }
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 7, 110);  // five deviations
}

TEST(ResizedCrop, TakesTheMiddleOfWhatFitsNoShape) {
  Random random = random_at(0);
  EXPECT_EQ(draw_resized_crop({1000, 10}, {.scale_min = 0.9}, random), (Region{493, 0, {13, 10}}));
  EXPECT_EQ(draw_resized_crop({9, 900}, {.scale_min = 0.9}, random), (Region{0, 444, {9, 12}}));
  EXPECT_EQ(draw_resized_crop({1, 1}, {}, random), (Region{0, 0, {1, 1}}));
}

TEST(PaddedCrop, MovesByUpToThePadding) {
  const Image image = test::made_picture(1, {8, 6});
  std::array<std::array<int, 9>, 9> seen{};
  for (int i = 0; i < kDraws; ++i) {
    Random random = random_at(i);
    const Image moved = draw_padded_crop(image, 4, random);
    for (int dy = -4; dy <= 4; ++dy) {
      for (int dx = -4; dx <= 4; ++dx) {
        bool same = true;
        for (int y = 0; y < 6; ++y) {
          for (int x = 0; x < 8; ++x) {
            const bool inside = y - dy >= 0 && y - dy < 6 && x - dx >= 0 && x - dx < 8;
            const uint8_t wanted = inside ? image.row(y - dy)[(x - dx) * 3] : 0;
            same = same && moved.row(y)[x * 3] == wanted;
          }
        }
        seen[static_cast<size_t>(dy + 4)][static_cast<size_t>(dx + 4)] += same;
      }
    }
  }
  for (const auto& row : seen) {
    for (const int count : row) EXPECT_NEAR(count, kDraws / 81.0, 40);  // more than five deviations
  }
}

TEST(PaddedCrop, MayMoveSmallPicturesOut) {
  const Image image = test::made_picture(1, {2, 3});
  for (int i = 0; i < 200; ++i) {
    Random random = random_at(i);
    EXPECT_EQ(draw_padded_crop(image, 50, random).size, image.size);
  }
}

TEST(Mirror, TwiceChangesNothing) {
  for (const int64_t width : {1, 2, 7}) {
    const Image image = test::made_picture(2, {width, 5});
    Image turned = image;
    mirror(turned);
    EXPECT_EQ(turned.row(3)[0], image.row(3)[(width - 1) * 3]);
    mirror(turned);
    EXPECT_EQ(turned.pixels, image.pixels);
  }
}

TEST(Erase, CoversItsPartAndNothingElse) {
  const Size size{40, 30};
  double area = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    Random random = random_at(i);
    const auto region = draw_erased(size, random);
    ASSERT_TRUE(region);
    ASSERT_NO_THROW(check_region(*region, size));
    const double part = static_cast<double>(region->size.width * region->size.height) / 1200;
    EXPECT_LT(part, 0.36);
    area += part / kDraws;
  }
  EXPECT_NEAR(area, (0.02 + 1.0 / 3) / 2, 0.015);
  std::vector<float> pixels(40 * 30 * 3, 9.0f);
  Random random = random_at(1);
  const Region region{5, 7, {20, 10}};
  fill_with_noise(pixels, size, region, random);
  double sum = 0.0, squares = 0.0;
  for (int64_t y = 0; y < 30; ++y) {
    for (int64_t x = 0; x < 40; ++x) {
      const bool inside = x >= 5 && x < 25 && y >= 7 && y < 17;
      for (int64_t c = 0; c < 3; ++c) {
        const float number = pixels[static_cast<size_t>((y * 40 + x) * 3 + c)];
        ASSERT_EQ(number == 9.0f, !inside);
        if (inside) sum += double{number};
        if (inside) squares += double{number} * double{number};
      }
    }
  }
  EXPECT_NEAR(sum / 600, 0.0, 0.2);
  EXPECT_NEAR(squares / 600, 1.0, 0.25);
}

TEST(Erase, LeavesPicturesOfOnePixel) {
  Random random = random_at(0);
  EXPECT_FALSE(draw_erased({1, 1}, random));
}

TEST(Mix, SwitchesAndShares) {
  const Augmentation options{
      .mixup = 0.8, .cutmix = 1.0, .mix_probability = 0.9, .mix_switch = 0.25};
  int mixed = 0, cut = 0;
  double share = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    Random random = random_at(i);
    const Mix mix = draw_mix(options, 32, random);
    if (mix.share == 1.0) continue;
    ++mixed;
    cut += mix.cuts;
    share += mix.share;
    ASSERT_GE(mix.share, 0.0);
    ASSERT_LE(mix.share, 1.0);
    const auto area = static_cast<double>(mix.region.size.width * mix.region.size.height);
    if (mix.cuts) {
      EXPECT_DOUBLE_EQ(mix.share, 1.0 - area / 1024.0);
    }
  }
  EXPECT_NEAR(mixed, 0.9 * kDraws, 150);  // some cuts have no pixel, and so mix nothing
  EXPECT_NEAR(cut, 0.25 * mixed, 150);
  EXPECT_NEAR(share / mixed, 0.5 + 0.25 * 0.1, 0.05);  // cuts that stick out take less
}

TEST(Mix, IsOffWithoutAlphas) {
  Random random = random_at(0);
  EXPECT_EQ(draw_mix({}, 32, random).share, 1.0);
}

TEST(Mix, AddsAndCutsFromTheFarEnd) {
  constexpr int64_t kSide = 4, kNumbers = kSide * kSide * 3;
  std::vector<float> pixels(3 * kNumbers);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i / kNumbers);
  std::vector<float> blended = pixels, cut = pixels;
  mix_batch({false, 0.75, {}}, 3, kSide, blended);
  mix_batch({true, 1.0 - 2.0 / 16, {1, 2, {2, 1}}}, 3, kSide, cut);
  for (size_t i = 0; i < kNumbers; ++i) {
    EXPECT_FLOAT_EQ(blended[i], 0.5f);
    EXPECT_FLOAT_EQ(blended[kNumbers + i], 1.0f);
    EXPECT_FLOAT_EQ(blended[2 * kNumbers + i], 1.5f);
    const size_t x = i / 3 % 4, y = i / 12;
    const bool inside = y == 2 && (x == 1 || x == 2);
    EXPECT_EQ(cut[i], inside ? 2.0f : 0.0f);
    EXPECT_EQ(cut[kNumbers + i], 1.0f);
    EXPECT_EQ(cut[2 * kNumbers + i], inside ? 0.0f : 2.0f);
  }
}

// How often the maker of pictures does each thing.
TEST(Picture, FlipsAndErasesAsOftenAsAsked) {
  const test::MadePictures source(1, {8, 8});
  BatchOptions options{.image_size = 8};
  options.augmentation = Augmentation{.crop = "centre", .flip = 0.3, .erase = 0.25};
  options.normalization = {{0, 0, 0}, {1, 1, 1}};
  const PictureMaker maker(options);
  std::vector<float> plain(8 * 8 * 3), pixels(8 * 8 * 3);
  normalize(test::made_picture(0, {8, 8}), options.normalization, PixelOrder::kPixels, plain);
  int flipped = 0, erased = 0;
  for (int i = 0; i < kDraws; ++i) {
    Random random = random_at(i);
    maker.make(source, 0, random, pixels);
    size_t kept = 0, mirrored = 0;
    for (size_t p = 0; p < pixels.size(); ++p) {
      const size_t row = p / 24, x = p / 3 % 8, c = p % 3;
      kept += pixels[p] == plain[p];
      mirrored += pixels[p] == plain[row * 24 + (7 - x) * 3 + c];
    }
    flipped += mirrored > kept;
    erased += std::max(kept, mirrored) < pixels.size();
  }
  EXPECT_NEAR(flipped, 0.3 * kDraws, 150);
  EXPECT_NEAR(erased, 0.25 * kDraws, 150);
}

}  // namespace
}  // namespace mala::data
