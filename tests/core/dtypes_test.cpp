// Narrow types to float and back: every value, every tie, and the far ends.
#include "mala/core/dtypes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mala {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
T of_bits(uint32_t bits) {
  return T{static_cast<uint16_t>(bits)};
}

template <typename T>
class Narrow : public testing::Test {};
using NarrowTypes = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Narrow, NarrowTypes);

TYPED_TEST(Narrow, EveryValueComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(of_bits<TypeParam>(bits));
    const TypeParam back = round_to<TypeParam>(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(back))) << bits;
    } else {
      EXPECT_EQ(back.bits, bits);
    }
  }
}

// Between two neighbours: below the middle down, above it up, and in the middle to the even one.
TYPED_TEST(Narrow, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7FFF; ++bits) {
    const float low = to_float(of_bits<TypeParam>(bits));
    const float high = to_float(of_bits<TypeParam>(bits + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float middle = low + (high - low) / 2;
    for (const float sign : {1.0f, -1.0f}) {
      const uint32_t minus = sign < 0 ? 0x8000u : 0u;
      EXPECT_EQ(round_to<TypeParam>(sign * middle).bits, minus | (bits + bits % 2));
      EXPECT_EQ(round_to<TypeParam>(sign * std::nextafter(middle, low)).bits, minus | bits);
      EXPECT_EQ(round_to<TypeParam>(sign * std::nextafter(middle, high)).bits, minus | (bits + 1));
    }
  }
}

TYPED_TEST(Narrow, FarEnds) {
  EXPECT_EQ(to_float(round_to<TypeParam>(kInfinity)), kInfinity);
  EXPECT_EQ(to_float(round_to<TypeParam>(-kInfinity)), -kInfinity);
  EXPECT_EQ(to_float(round_to<TypeParam>(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_TRUE(std::signbit(to_float(round_to<TypeParam>(-0.0f))));
  EXPECT_TRUE(std::isnan(to_float(round_to<TypeParam>(std::bit_cast<float>(0x7F800001u)))));
}

TEST(Float16, KnownValues) {
  EXPECT_EQ(to_float(Float16{0x3C00}), 1.0f);
  EXPECT_EQ(to_float(Float16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(Float16{0x7BFF}), 65504.0f);
  EXPECT_EQ(round_to<Float16>(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(round_to<Float16>(65520.0f).bits, 0x7C00);
}

TEST(BFloat16, KnownValues) {
  EXPECT_EQ(to_float(BFloat16{0x3F80}), 1.0f);
  EXPECT_EQ(round_to<BFloat16>(1.00390625f).bits, 0x3F80);  // a tie: to the even one below
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(dtype_of<const BFloat16>(), DType::kBFloat16);
  EXPECT_EQ(dtype_of<double>(), DType::kFloat64);
  EXPECT_EQ(bytes_of(DType::kFloat16), 2);
  static_assert(std::is_same_v<Compute<Float16>, float>);
  static_assert(std::is_same_v<Compute<double>, double>);
}

}  // namespace
}  // namespace mala
