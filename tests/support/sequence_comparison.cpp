// Term sizes, and the bound on errors that they give.
#include "tests/support/sequence_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/support/compare.h"

namespace mala::test {
namespace {

// How many roundings of the largest term an element of a result may be off. Products and sums in
// blocks, the feature map and its slope (numbers up to 2.7) and the rotation make some fifteen on
// our data; twice that is still thousands of times below any wrong term.
constexpr double kRoundings = 32;

// Where the problem is ill-conditioned: how many times as far as the definition itself moves when
// its inputs are rounded.
constexpr double kTimesTheMove = 16;

// Angles are position times frequency in double, so far positions carry a rounding of the angle
// into cos and sin: this much, as a share of the features.
double angle_error(const AttentionCase& c, int64_t before) {
  double furthest = 0;
  for (const Rope& rope : {c.options.q_rope, c.options.k_rope}) {
    const double position = static_cast<double>(rope.offset + before + std::max(c.queries, c.keys));
    if (rope.kind == Rope::Kind::kLine) furthest = std::max(furthest, position);
    if (rope.kind == Rope::Kind::kGrid) {
      const double width = static_cast<double>(rope.width);
      furthest = std::max({furthest, position / width, width});
    }
  }
  return 2 * furthest * std::numeric_limits<double>::epsilon();
}

// Half the distance between neighbours around one, where results are rounded after all is computed.
template <typename T>
constexpr double last_rounding() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-8;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-11;
  return 0;
}

// What is left of the largest error when each element may be off by its last rounding; numbers
// below the least of a type's usual ones are as far apart as that.
template <typename T>
double error_before_rounding(const std::vector<double>& actual,
                             const std::vector<double>& expected) {
  if (last_rounding<T>() == 0 || actual.size() != expected.size())
    return max_error(actual, expected);
  constexpr double kLeast = std::is_same_v<T, Float16> ? 0x1p-14 : 0x1p-126;
  std::vector<double> near = expected;
  for (size_t i = 0; i < near.size(); ++i) {
    const double rounding = last_rounding<T>() * std::max(kLeast, std::abs(expected[i]));
    const double error = actual[i] - expected[i];
    near[i] += std::abs(error) <= rounding ? error : std::copysign(rounding, error);
  }
  return max_error(actual, near);
}

}  // namespace

Sight sight_of(const AttentionCase& one) { return Sight(one.queries, one.keys); }

Sight causal_sight_of(const AttentionCase& one, int64_t before) {
  Sight sight;
  for (int64_t t = 0; t < one.queries; ++t) sight.push_back(before + std::min(t + 1, one.keys));
  return sight;
}

TermSizes::TermSizes(const AttentionCase& c, const Sight& sight) {
  const double scale = std::abs(c.scale()), dim = static_cast<double>(c.dim);
  const double root_e = std::sqrt(static_cast<double>(c.value_dim));
  // The features of exp and their slopes both reach 2.7; the others stay around one.
  features = c.options.feature == Feature::kExp ? 4 : 1;
  for (const int64_t seen : sight) {
    const double keys = static_cast<double>(seen);
    const double c_one = scale / (c.options.key_mean ? keys : 1), s = c_one * keys * dim;
    const double gain = c.options.rule == Rule::kInline ? 1 : 1 + 1 / (s + c.options.eps);
    out = std::max(out, 1 + s);
    q = std::max(q, 0.5 * c_one * keys * gain * root_e * features);
    kv += std::pow(c_one * gain * features, 2);
    v += std::pow((1 + s) / keys, 2);
  }
  // What meets a key, in all heads that share it.
  const double group = static_cast<double>(c.group);
  kv = std::sqrt(group * kv);
  v = std::sqrt(group * v);
  k = 0.5 * root_e * kv;
}

template <typename T>
SequenceComparison<T>::SequenceComparison(const AttentionCase& one, const Sight& sight,
                                          int64_t before)
    : case_(one),
      sizes_(one, sight),
      relative_(kRoundings * std::numeric_limits<Compute<T>>::epsilon() +
                angle_error(one, before)) {}

template <typename T>
void SequenceComparison<T>::expect_small(const std::string& what, const Measured& m) {
  const double bound = kTimesTheMove * m.move + relative_ * std::max(m.largest, m.term_size);
  EXPECT_LE(m.error, bound) << what << " is wrong; the largest expected is " << m.largest
                            << "\n  in the case " << describe(case_);
  close_ = close_ && m.error <= bound;
}

template <typename T>
void SequenceComparison<T>::expect_tokens(const AttentionResults& actual,
                                          const AttentionResults& expected,
                                          const AttentionResults& moved) {
  using Part = std::vector<double> AttentionResults::*;
  auto expect = [&](const char* what, Part part, double term_size) {
    const double move = max_error((moved.out.empty() ? expected : moved).*part, expected.*part);
    expect_small(what, {error_before_rounding<T>(actual.*part, expected.*part),
                        max_size(expected.*part), term_size, move});
  };
  expect("out", &AttentionResults::out, sizes_.out);
  expect("the gradient of q", &AttentionResults::q, sizes_.q);
  expect("the gradient of k", &AttentionResults::k, sizes_.k);
  expect("the gradient of v", &AttentionResults::v, sizes_.v);
  expect("the gradient of local", &AttentionResults::local, 1);
  expect("the gradient of gate", &AttentionResults::gate, sizes_.out);
}

template <typename T>
void SequenceComparison<T>::expect_state(const std::string& what, const std::vector<double>& actual,
                                         const std::vector<double>& expected, double term_size) {
  expect_small(what, {max_error(actual, expected), max_size(expected), term_size, 0});
}

template class SequenceComparison<float>;
template class SequenceComparison<double>;
template class SequenceComparison<BFloat16>;
template class SequenceComparison<Float16>;

}  // namespace mala::test
