// Element types of tensors in memory, and the type in which each is computed.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace mala {

enum class DType : int32_t { kFloat32, kFloat64, kBFloat16, kFloat16 };

// Storage only: arithmetic happens in float.
struct BFloat16 {
  uint16_t bits;
  bool operator==(const BFloat16&) const = default;  // of bits
};
struct Float16 {
  uint16_t bits;
  bool operator==(const Float16&) const = default;
};

// Sums, states and everything in between: double for double, float for the rest.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
constexpr DType dtype_of() {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<U, BFloat16>) return DType::kBFloat16;
  if constexpr (std::is_same_v<U, Float16>) return DType::kFloat16;
  return DType::kFloat32;
}

constexpr int64_t bytes_of(DType dtype) {
  return dtype == DType::kFloat64 ? 8 : dtype == DType::kFloat32 ? 4 : 2;
}

inline float to_float(float x) { return x; }
inline double to_float(double x) { return x; }

inline float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline float to_float(Float16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) {  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7F800000u | (magnitude << 13));
  }
  // As if the exponents had the same bias, then moved by 2^(127 - 15): right for subnormals too.
  const float moved = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(moved));
}

// The nearest value of type T, ties to even; NaN stays NaN, what is too large becomes infinity.
template <typename T>
T round_to(Compute<T> x) {
  return x;
}

template <>
inline BFloat16 round_to<BFloat16>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
inline Float16 round_to<Float16>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<uint16_t>(sign | 0x7E00u)};
  if (magnitude >= 0x477FF000u) return {static_cast<uint16_t>(sign | 0x7C00u)};
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded digits lowest
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const uint32_t digits = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
    return {static_cast<uint16_t>(sign | digits)};
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace mala
