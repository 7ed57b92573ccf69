// The bound that roundings give, part by part.
#include "tests/kernels/cuda_compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mala::test {
namespace {

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d(a.size());
  for (size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return d;
}

// Half a unit of the last place, and what the two parts of a state's numbers leave of a term.
template <typename T>
constexpr double kHalfUnit = std::is_same_v<T, BFloat16> ? 0x1p-9 : 0x1p-12;
template <typename T>
constexpr double kLeastPart = kHalfUnit<T> / 32;

// Errors of all that is rounded inside, besides the last rounding, may be as large as that.
constexpr double kRoundings = 2;
// The product of a gate and the gradient of out is rounded before it is used: a share of the terms,
// which sums over few tokens can leave far behind.
constexpr double kGateRounding = 0.5;

template <typename T>
bool expect_part(const char* what, const std::vector<double>& actual,
                 const std::vector<double>& expected, double term_size, const AttentionCase& c) {
  if (expected.empty()) return true;
  std::vector<double> rounded_once(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) rounded_once[i] = to_float(rounded<T>(expected[i]));
  // A few numbers may happen to be round: as many digits as numbers usually have are always lost.
  const double rounding =
      std::max(rms(difference(rounded_once, expected)), 0.4 * kHalfUnit<T> * rms(expected));
  const double error = actual.size() == expected.size() ? rms(difference(actual, expected)) : NAN;
  const double gate_rounding = c.gate ? kGateRounding * kHalfUnit<T> : 0;
  const double bound = kRoundings * rounding + (kLeastPart<T> + gate_rounding) * term_size;
  EXPECT_LE(error, bound) << what << " is wrong, of the size " << rms(expected)
                          << "\n  in the case " << describe(c);
  return error <= bound;
}

}  // namespace

template <typename T>
bool expect_roundings(const AttentionResults& actual, const AttentionResults& expected,
                      const AttentionCase& one, const Sight& sight) {
  const TermSizes sizes(one, sight);
  bool close = expect_part<T>("out", actual.out, expected.out, sizes.out, one);
  close &= expect_part<T>("the gradient of q", actual.q, expected.q, sizes.q, one);
  close &= expect_part<T>("the gradient of k", actual.k, expected.k, sizes.k, one);
  close &= expect_part<T>("the gradient of v", actual.v, expected.v, sizes.v, one);
  close &= expect_part<T>("the gradient of local", actual.local, expected.local, 1, one);
  close &= expect_part<T>("the gradient of gate", actual.gate, expected.gate, sizes.out, one);
  return close;
}

template bool expect_roundings<BFloat16>(const AttentionResults&, const AttentionResults&,
                                         const AttentionCase&, const Sight&);
template bool expect_roundings<Float16>(const AttentionResults&, const AttentionResults&,
                                        const AttentionCase&, const Sight&);

}  // namespace mala::test
