// Weights in other types: rounded once, whole numbers untouched.
#include "mala/io/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "mala/core/dtypes.h"
#include "tests/support/refusals.h"

namespace mala::io {
namespace {

const Source kSource{"test", "file"};

template <typename T>
Array array_of(const std::string& name, ElementType type, const std::vector<T>& values) {
  return {.name = name,
          .type = type,
          .shape = {std::ssize(values)},
          .bytes = std::as_bytes(std::span(values))};
}

Weights weights_of(std::vector<Array> arrays) {
  Weights weights;
  weights.arrays = std::move(arrays);
  return weights;
}

template <typename T>
std::vector<T> values_of(const Array& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

const std::vector<float> kFloats{0.1f, -3.5f, 1e30f, -0.0f, 65504.f, INFINITY};

TEST(Cast, RoundsFloatsToTheNearest) {
  const Weights weights = weights_of({array_of("x", ElementType::kFloat32, kFloats)});
  const Weights half = cast_floats(weights, ElementType::kFloat16, kSource);
  const Weights brain = cast_floats(weights, ElementType::kBFloat16, kSource);
  for (size_t i = 0; i < kFloats.size(); ++i) {
    EXPECT_EQ(values_of<Float16>(half.arrays[0])[i], round_to<Float16>(kFloats[i]));
    EXPECT_EQ(values_of<BFloat16>(brain.arrays[0])[i], round_to<BFloat16>(kFloats[i]));
  }
  EXPECT_EQ(half.arrays[0].type, ElementType::kFloat16);
  EXPECT_EQ(half.arrays[0].shape, weights.arrays[0].shape);
}

TEST(Cast, WidensWithoutLoss) {
  const std::vector<BFloat16> narrow{round_to<BFloat16>(0.1f), round_to<BFloat16>(-7.f)};
  const Weights weights = weights_of({array_of("x", ElementType::kBFloat16, narrow)});
  const Weights wide = cast_floats(weights, ElementType::kFloat64, kSource);
  EXPECT_EQ(values_of<double>(wide.arrays[0])[0], to_float(narrow[0]));
  EXPECT_EQ(values_of<double>(wide.arrays[0])[1], -7.0);
}

TEST(Cast, LeavesWholeNumbersAndTheWantedTypeAlone) {
  const std::vector<int64_t> whole{1, -2};
  const Weights weights = weights_of(
      {array_of("a", ElementType::kInt64, whole), array_of("b", ElementType::kFloat32, kFloats)});
  const Weights same = cast_floats(weights, ElementType::kFloat32, kSource);
  EXPECT_EQ(same.arrays[0].bytes.data(), weights.arrays[0].bytes.data());
  EXPECT_EQ(same.arrays[1].bytes.data(), weights.arrays[1].bytes.data());
}

TEST(Cast, RefusesEightBits) {
  const std::vector<uint8_t> bits{1, 2};
  const Weights weights = weights_of({array_of("tiny", ElementType::kFloat8E4M3, bits)});
  EXPECT_NE(
      test::refusal([&] { cast_floats(weights, ElementType::kFloat32, kSource); }).find("'tiny'"),
      std::string::npos);
  EXPECT_NE(test::refusal([&] {
              cast_floats({}, ElementType::kInt8, kSource);
            }).find("cannot be written"),
            std::string::npos);
}

}  // namespace
}  // namespace mala::io
