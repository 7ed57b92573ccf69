// Error measures, and the bound on them.
#include "tests/support/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/sequences.h"

namespace mala::test {
namespace {

// How many roundings of the largest term an element of a result may be off. Products and sums in
// blocks, the feature map and its slope (numbers up to 2.7) and the rotation make some fifteen on
// our data; twice that is still thousands of times below any wrong term.
constexpr double kRoundings = 32;

// Where the problem is ill-conditioned: how many times as far as the definition itself moves when
// its inputs are rounded.
constexpr double kTimesTheMove = 16;

// The sizes of the terms whose sums and differences the results are, for data about one: results
// can be far smaller, the gradients of q and k for a single key are nothing at all. out and the
// gradient of v are differences of numbers about s times as large.
struct TermSizes {
  explicit TermSizes(const AttentionCase& c) {
    // What meets a key, in all heads that share it.
    const double queries = static_cast<double>(c.queries * c.group);
    const double keys = static_cast<double>(c.keys);
    const double root_e = std::sqrt(static_cast<double>(c.value_dim));
    const double c_all = std::abs(c.scale()) * (c.options.key_mean ? 1 : keys);
    const double s = c_all * static_cast<double>(c.dim);
    const double gain = c.options.rule == Rule::kInline ? 1 : 1 + 1 / (s + c.options.eps);
    // The features of exp and their slopes both reach 2.7; the others stay around one.
    const double features = c.options.feature == Feature::kExp ? 4 : 1;
    out = 1 + s;
    q = 0.5 * c_all * gain * root_e * features;
    k = 0.5 * c_all / keys * gain * root_e * features * std::sqrt(queries);
    v = (1 + s) * std::sqrt(queries) / keys;
  }
  double out, q, k, v;
};

// Angles are position times frequency in double, so far positions carry a rounding of the angle
// into cos and sin: this much, as a share of the features.
double angle_error(const AttentionCase& c) {
  double furthest = 0;
  for (const Rope& rope : {c.options.q_rope, c.options.k_rope}) {
    const double position = static_cast<double>(rope.offset + std::max(c.queries, c.keys));
    if (rope.kind == Rope::Kind::kLine) furthest = std::max(furthest, position);
    if (rope.kind == Rope::Kind::kGrid) {
      const double width = static_cast<double>(rope.width);
      furthest = std::max({furthest, position / width, width});
    }
  }
  return 2 * furthest * std::numeric_limits<double>::epsilon();
}

// Returns whether all of them are.
template <typename T>
bool expect_sequence_close(const AttentionResults& actual, const AttentionResults& expected,
                           const AttentionCase& c, const AttentionResults& moved) {
  const TermSizes sizes(c);
  const double relative = kRoundings * std::numeric_limits<T>::epsilon() + angle_error(c);
  bool close = true;
  using Part = std::vector<double> AttentionResults::*;
  auto expect = [&](const char* what, Part part, double term_size) {
    const double largest = max_size(expected.*part),
                 error = max_error(actual.*part, expected.*part);
    const double move = max_error((moved.out.empty() ? expected : moved).*part, expected.*part);
    const double bound = kTimesTheMove * move + relative * std::max(largest, term_size);
    EXPECT_LE(error, bound) << what << " is wrong; the largest expected is " << largest
                            << "\n  in the case " << describe(c);
    close = close && error <= bound;
  };
  expect("out", &AttentionResults::out, sizes.out);
  expect("the gradient of q", &AttentionResults::q, sizes.q);
  expect("the gradient of k", &AttentionResults::k, sizes.k);
  expect("the gradient of v", &AttentionResults::v, sizes.v);
  expect("the gradient of local", &AttentionResults::local, 1);
  expect("the gradient of gate", &AttentionResults::gate, sizes.out);
  return close;
}

}  // namespace

double max_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    // Written so that NaN counts as the worst.
    if (!(error <= worst))
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
  return worst;
}

double max_size(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  const double error = max_error(actual, expected);
  return error == 0 ? 0 : error / max_size(expected);
}

bool same_bits(const std::vector<double>& x, const std::vector<double>& y) {
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0);
}

bool same_bits(const AttentionResults& x, const AttentionResults& y) {
  return same_bits(x.out, y.out) && same_bits(x.q, y.q) && same_bits(x.k, y.k) &&
         same_bits(x.v, y.v) && same_bits(x.local, y.local) && same_bits(x.gate, y.gate);
}

template <typename T>
void expect_close(const AttentionResults& actual, const AttentionResults& expected,
                  const AttentionCase& c, const AttentionResults& moved) {
  const CaseLengths& lengths = c.lengths;
  if (lengths.key_counts.empty() && !c.packed() && lengths.q_widths.empty() &&
      lengths.k_widths.empty()) {
    expect_sequence_close<T>(actual, expected, c, moved);
    return;
  }
  bool close = true;
  for (int64_t s = 0; s < c.sequences() && close; ++s) {
    SCOPED_TRACE(str("sequence ", s, " of ", describe(c)));
    close =
        expect_sequence_close<T>(sequence_results(actual, c, s), sequence_results(expected, c, s),
                                 sequence_case(c, s), sequence_results(moved, c, s));
    EXPECT_EQ(max_error(uncounted_gradients(actual, c, s), uncounted_gradients(expected, c, s)), 0)
        << "keys beyond the count have gradients";
  }
}

template void expect_close<float>(const AttentionResults&, const AttentionResults&,
                                  const AttentionCase&, const AttentionResults&);
template void expect_close<double>(const AttentionResults&, const AttentionResults&,
                                   const AttentionCase&, const AttentionResults&);

}  // namespace mala::test
