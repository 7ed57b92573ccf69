// The arithmetic of tensor cores as it has been observed from outside, bit for bit: see
// arXiv:2512.07004, "Accurate models of NVIDIA tensor cores".
#include "tests/emulator/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/emulator/device_kind.h"

namespace mala::emulator {
namespace {

constexpr int kNone = -1000;   // the exponent of zero: below all others
constexpr int kLowest = -133;  // no sum is aligned to less
constexpr int kMostColumns = 256;

// Of numbers too small to be normal, the lowest that normal ones have.
int exponent_of(float x) {
  if (x == 0) return kNone;
  return std::max(static_cast<int>(std::bit_cast<uint32_t>(x) >> 23 & 255), 1) - 127;
}

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// What a float does not hold is cut off, not rounded.
float cut_off(double sum) {
  const auto nearest = static_cast<float>(sum);
  const bool is_larger = std::fabs(static_cast<double>(nearest)) > std::fabs(sum);
  return is_larger && std::isfinite(nearest) ? std::nextafter(nearest, 0.0f) : nearest;
}

// Infinities and what is no number go through a sum as everywhere.
void add_as_they_are(const float* left, const RightSide& right, int first, int end, float* sums) {
  for (int column = 0; column < right.columns; ++column) {
    double sum = sums[column];
    for (int k = first; k < end; ++k)
      sum += static_cast<double>(left[k]) * right.numbers[k * right.columns + column];
    sums[column] = cut_off(sum);
  }
}

// Those of [first, end) that are added at once.
void add_group(const float* left, const RightSide& right, int first, int end, float* sums) {
  const int columns = right.columns;
  int top[kMostColumns];
  double scale[kMostColumns], total[kMostColumns];
  for (int column = 0; column < columns; ++column)
    top[column] = std::max(kLowest, exponent_of(sums[column]));
  for (int k = first; k < end; ++k) {
    const int exponent = exponent_of(left[k]);
    const int* exponents = &right.exponents[k * columns];
    for (int column = 0; column < columns; ++column)
      top[column] = std::max(top[column], exponent + exponents[column]);
  }
  const int bits = device_kind().sum_bits;
  for (int column = 0; column < columns; ++column) {
    scale[column] = power_of_two(bits - top[column]);
    total[column] = static_cast<int>(sums[column] * scale[column]);
  }
  for (int k = first; k < end; ++k) {
    const double x = left[k];
    const float* numbers = &right.numbers[k * columns];
    for (int column = 0; column < columns; ++column)
      total[column] += static_cast<int>(x * numbers[column] * scale[column]);
  }
  for (int column = 0; column < columns; ++column)
    sums[column] = cut_off(total[column] / scale[column]);
}

bool all_finite(const float* values, int count) {
  return std::all_of(values, values + count, [](float x) { return std::isfinite(x); });
}

}  // namespace

void RightSide::set(int k, int column, float x) {
  numbers[k * columns + column] = x;
  exponents[k * columns + column] = exponent_of(x);
  finite = finite && std::isfinite(x);
}

void add_row(const float* left, const RightSide& right, float* sums) {
  const int bytes = device_kind().product_bytes;
  const int at_once = right.kind == Operand::kTf32 ? bytes / 4 : bytes / 2;
  const bool finite = right.finite && all_finite(left, right.depth);
  for (int first = 0; first < right.depth; first += at_once) {
    const int end = std::min(first + at_once, right.depth);
    if (finite && all_finite(sums, right.columns)) {
      add_group(left, right, first, end, sums);
    } else {
      add_as_they_are(left, right, first, end, sums);
    }
  }
}

}  // namespace mala::emulator
