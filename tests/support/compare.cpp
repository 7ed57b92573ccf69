// Error measures.
#include "tests/support/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mala::test {

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

bool same_bits(const CausalResults& x, const CausalResults& y) {
  return same_bits(x.tokens, y.tokens) && same_bits(x.after, y.after) &&
         same_bits(x.before_gradient, y.before_gradient) && x.counts == y.counts;
}

}  // namespace mala::test
