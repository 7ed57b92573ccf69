// RandAugment: its option string, and what its operations and strengths do to pictures.
#include "mala/data/augment/rand_augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mala/data/augment/augmentation.h"
#include "tests/data/support/made_pictures.h"
#include "tests/support/refusals.h"

namespace mala::data {
namespace {

TEST(RandAugmentOptions, ReadsThePublishedRecipe) {
  for (const char* text : {"m9-mstd0.5-inc1", "rand-m9-mstd0.5-inc1", "inc1-mstd0.5-m9"}) {
    const RandAugment options = parse_rand_augment(text);
    EXPECT_EQ(options.magnitude, 9.0);
    EXPECT_EQ(options.magnitude_deviation, 0.5);
    EXPECT_TRUE(options.increasing);
    EXPECT_EQ(options.operations, 2);
    EXPECT_EQ(options.probability, 0.5);
  }
  const RandAugment other = parse_rand_augment("n3-p0.25-mmax7.5-inc0");
  EXPECT_EQ(other.operations, 3);
  EXPECT_EQ(other.probability, 0.25);
  EXPECT_EQ(other.largest_magnitude, 7.5);
  EXPECT_EQ(other.magnitude, 10.0);
  EXPECT_FALSE(other.increasing);
}

TEST(RandAugmentOptions, SaysWhatIsWrong) {
  const auto words = [](const char* text) {
    return test::refusal([&] { parse_rand_augment(text); });
  };
  EXPECT_TRUE(test::says(words(""), "says nothing"));
  EXPECT_TRUE(test::says(words("rand-"), "says nothing"));
  EXPECT_TRUE(test::says(words("m9--inc1"), "'' in 'm9--inc1' is no name with a number"));
  EXPECT_TRUE(test::says(words("m9-"), "is no name with a number"));
  EXPECT_TRUE(test::says(words("m"), "'m' in 'm' is no name with a number"));
  EXPECT_TRUE(test::says(words("9"), "is no name with a number"));
  EXPECT_TRUE(test::says(words("m9x"), "is no name with a number"));
  EXPECT_TRUE(test::says(words("m1e999"), "is no name with a number"));
  EXPECT_TRUE(test::says(words("mag9"), "there is no 'mag'"));
  EXPECT_TRUE(test::says(words("mag9"), "mstd (its deviation)"));
  EXPECT_TRUE(test::says(words("m31"), "m31: needs a number up to 30"));
  EXPECT_TRUE(test::says(words("n2.5"), "needs a whole number up to 100"));
  EXPECT_TRUE(test::says(words("p1.5"), "needs a number up to 1"));
  EXPECT_TRUE(test::says(words("inc2"), "needs a whole number up to 1"));
}

int64_t difference(const Image& a, const Image& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum;
}

// Colours that rise slowly, with a loud patch: noise would hide small moves, and has all levels
// already.
Image ramp() {
  Image image(Size{48, 40});
  for (int64_t y = 0; y < 40; ++y) {
    for (int64_t x = 0; x < 48; ++x) {
      uint8_t* const pixel = image.row(y) + x * 3;
      pixel[0] = static_cast<uint8_t>(40 + 3 * x);
      pixel[1] = static_cast<uint8_t>(60 + 2 * y);
      pixel[2] = static_cast<uint8_t>(30 + x + y);
      if (x < 9 && y < 7) pixel[0] = 250;
      if (x < 9 && y < 7) pixel[1] = 3;
    }
  }
  return image;
}

TEST(RandAugment, HasFifteenOperationsThatAllDoSomething) {
  const auto names = rand_augment_operations();
  EXPECT_EQ(names.size(), 15u);
  for (const bool increasing : {false, true}) {
    for (const std::string_view name : names) {
      Image image = ramp();
      Random random(1, 0, Use::kPicture);
      apply_operation(name, 9.0, {.increasing = increasing}, {}, random, image);
      EXPECT_EQ(image.size, ramp().size);
      EXPECT_GT(difference(image, ramp()), 0) << name;
    }
  }
  Image image = ramp();
  Random random(1, 0, Use::kPicture);
  EXPECT_TRUE(test::says(
      test::refusal([&] { apply_operation("blur", 9.0, {}, {}, random, image); }), "'blur'"));
}

// That is what "inc1" is for.
TEST(RandAugment, IncreasingOperationsChangeMoreWithMagnitude) {
  for (const char* name : {"rotate", "posterize", "solarize", "solarize_add", "colour", "contrast",
                           "brightness", "shear_x", "shear_y", "translate_x", "translate_y"}) {
    int64_t last = -1;
    for (const double magnitude : {0.0, 3.0, 6.0, 9.0}) {
      Image image = ramp();
      Random random(3, 0, Use::kPicture);
      apply_operation(name, magnitude, {.increasing = true}, {}, random, image);
      EXPECT_GE(difference(image, ramp()), last) << name << " " << magnitude;
      last = difference(image, ramp());
    }
    EXPECT_GT(last, 0) << name;
  }
}

TEST(RandAugment, TakesEachOperationAsOften) {
  // One operation a picture, half of the time: half of the pictures stay, and a fifteenth of the
  // others are inverted.
  const RandAugment options = parse_rand_augment("m9-n1-p0.5-inc1");
  Image inverted = ramp();
  for (uint8_t& level : inverted.pixels) level = static_cast<uint8_t>(255 - level);
  int same = 0, turned = 0;
  constexpr int kDraws = 3000;
  for (int i = 0; i < kDraws; ++i) {
    Image image = ramp();
    Random random(5, 0, Use::kPicture, i);
    apply(options, {}, random, image);
    same += image.pixels == ramp().pixels;
    turned += image.pixels == inverted.pixels;
  }
  EXPECT_NEAR(same, kDraws / 2, 140);
  EXPECT_NEAR(turned, kDraws / 30, 50);
}

TEST(RandAugment, DrawsFollowFromTheStreamAlone) {
  const RandAugment options = parse_rand_augment("m9-n4-p1-mstd0.5-inc1");
  for (int i = 0; i < 50; ++i) {
    Image a = ramp(), b = ramp();
    Random first(5, 0, Use::kPicture, i), second(5, 0, Use::kPicture, i);
    apply(options, {}, first, a);
    apply(options, {}, second, b);
    EXPECT_EQ(a.pixels, b.pixels);
  }
}

TEST(Augmentation, RangesAreChecked) {
  const auto words = [](const Augmentation& augmentation) {
    return test::refusal([&] { check_augmentation(augmentation); });
  };
  check_augmentation({});
  EXPECT_TRUE(test::says(words({.crop = "center"}), "crop is 'center', needs 'resized'"));
  EXPECT_TRUE(test::says(words({.scale_min = 0.9, .scale_max = 0.5}), "scale_min is 0.9"));
  EXPECT_TRUE(test::says(words({.ratio_min = 0.0}), "ratio_min is 0"));
  EXPECT_TRUE(test::says(words({.padding = -1}), "padding is -1"));
  EXPECT_TRUE(test::says(words({.interpolation = "cubic"}), "interpolation is 'cubic'"));
  EXPECT_TRUE(test::says(words({.flip = 1.5}), "flip is 1.5, needs 0 to 1"));
  EXPECT_TRUE(test::says(words({.rand_augment = "m9-x1"}), "there is no 'x'"));
  EXPECT_TRUE(test::says(words({.colour_jitter = 2}), "colour_jitter is 2"));
  EXPECT_TRUE(test::says(words({.erase = -0.1}), "erase is -0.1"));
  EXPECT_TRUE(test::says(words({.mixup = -1}), "mixup is -1"));
  EXPECT_TRUE(test::says(words({.cutmix = NAN}), "cutmix is nan"));
  EXPECT_TRUE(test::says(words({.mix_switch = 2}), "mix_switch is 2"));
}

TEST(Augmentation, EveryFieldIsInTheList) {
  Augmentation augmentation;
  size_t bytes = 0;
  visit_fields(augmentation, [&](const char*, auto& field, const char*) { bytes += sizeof field; });
  EXPECT_EQ(bytes, sizeof augmentation);
}

}  // namespace
}  // namespace mala::data
