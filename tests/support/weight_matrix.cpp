// Weights A_ij straight from the formulas, one number at a time.
#include "tests/support/weight_matrix.h"

#include <algorithm>
#include <cmath>
#include <complex>

namespace mala::test {
namespace {

using Complex = std::complex<double>;
using Row = std::vector<double>;

double feature_of(Feature feature, double x) {
  if (feature == Feature::kElu1) return x > 0 ? x + 1 : std::exp(x);
  if (feature == Feature::kRelu) return x > 0 ? x : 0;
  return feature == Feature::kExp ? std::exp(x) : x;
}

Row features(MatrixView<const double> x, int64_t token, Feature feature) {
  Row row;
  for (int64_t d = 0; d < x.cols; ++d) row.push_back(feature_of(feature, x.at(token, d)));
  return row;
}

// The turn of one pair of a token, as a number of size one.
Complex turn(const Rope& rope, int64_t token, int64_t pair, int64_t dim) {
  const double n = static_cast<double>(rope.offset + token), t = static_cast<double>(pair);
  const double pairs = static_cast<double>(dim) / 2;
  if (rope.kind == Rope::Kind::kLine) return std::polar(1.0, n / std::pow(1e4, t / pairs));
  if (rope.kind == Rope::Kind::kTable)
    return {rope.cos[token * rope.table_stride + pair], rope.sin[token * rope.table_stride + pair]};
  if (rope.kind == Rope::Kind::kNone) return 1;
  const double width = static_cast<double>(rope.width), half = pairs / 2;
  const double row = std::floor(n / width), column = n - row * width;
  if (t < half) return std::polar(1.0, row / std::pow(1e4, t / (half - 1)));
  return std::polar(1.0, column / std::pow(1e4, (t - half) / (half - 1)));
}

struct Side {
  Row plain;
  Rope rope;
  int64_t token;
};

double plain_score(const Side& q, const Side& k) {
  double sum = 0;
  for (size_t d = 0; d < q.plain.size(); ++d) sum += q.plain[d] * k.plain[d];
  return sum;
}

// The real part of a conj(b), pair by pair: the dot product after both have turned.
double turned_score(const Side& q, const Side& k) {
  const int64_t dim = static_cast<int64_t>(q.plain.size());
  double sum = 0;
  for (int64_t p = 0; p < dim / 2; ++p) {
    const Complex a{q.plain[2 * p], q.plain[2 * p + 1]}, b{k.plain[2 * p], k.plain[2 * p + 1]};
    sum +=
        std::real(a * turn(q.rope, q.token, p, dim) * std::conj(b * turn(k.rope, k.token, p, dim)));
  }
  return sum;
}

double mean(const Row& x) {
  double sum = 0;
  for (const double y : x) sum += y;
  return sum / static_cast<double>(x.size());
}

// The norm where the caller names none.
Norm usual_norm(const AttentionOptions& o, Form form) {
  return form == Form::kCausal && o.rule == Rule::kMala ? Norm::kBalanced : Norm::kPublished;
}

// The weights of one query, from its scores c * phi(q) . phi(k_j), before and after the turn.
Row weights(const AttentionOptions& o, Norm norm, const Row& plain, const Row& turned) {
  const double keys = static_cast<double>(plain.size());
  const double magnitude = keys * mean(norm == Norm::kPrinted ? turned : plain);
  const double inverse = 1 / (magnitude + o.eps);
  Row row;
  for (const double x : turned) {
    const double centred = x - mean(turned);
    const bool balanced = norm == Norm::kBalanced;
    const double inline_part = balanced ? centred + 1 / keys : x - (magnitude - 1) / keys;
    const double linear_part = balanced ? centred * inverse + 1 / keys : x * inverse;
    if (o.rule == Rule::kInline) row.push_back(inline_part);
    if (o.rule == Rule::kLinear) row.push_back(linear_part);
    if (o.rule == Rule::kMala) row.push_back(inline_part + linear_part - 1 / keys);
  }
  return row;
}

// What query i of batch entry b sees: so many keys from the first, and where both sides count from.
struct Sight {
  int64_t first_query = 0, first_key = 0, keys = 0;
  Rope q_rope, k_rope;
};

Sight sight_of(const AttentionProblem<double>& problem, int64_t b, int64_t i, Form form) {
  const CaseLengths& lengths = problem.about.lengths;
  Sight sight{.keys = problem.about.keys,
              .q_rope = problem.options.q_rope,
              .k_rope = problem.options.k_rope};
  int64_t sequence = b;
  if (problem.about.packed()) {
    const auto& q = lengths.q_offsets;
    sequence = std::upper_bound(q.begin(), q.end(), i) - q.begin() - 1;
    sight.first_query = q[sequence];
    sight.first_key = lengths.k_offsets[sequence];
    sight.keys = lengths.k_offsets[sequence + 1] - sight.first_key;
  }
  if (!lengths.key_counts.empty()) sight.keys = lengths.key_counts[b];
  if (form == Form::kCausal) sight.keys = std::min(sight.keys, i - sight.first_query + 1);
  if (!lengths.q_widths.empty()) sight.q_rope.width = lengths.q_widths[sequence];
  if (!lengths.k_widths.empty()) sight.k_rope.width = lengths.k_widths[sequence];
  return sight;
}

// One element of out. Values that the query does not see may be NaN.
double weighted_value(const AttentionProblem<double>& problem, const std::vector<double>& matrix,
                      const Sight& sight, const std::array<int64_t, 4>& at) {
  const auto [b, h, i, e] = at;
  const AttentionInputs<double> x = problem.inputs();
  double sum = 0;
  for (int64_t j = sight.first_key; j < sight.first_key + sight.keys; ++j)
    sum += matrix[i * x.k.tokens + j] * x.v.head(b, h / problem.about.group).at(j, e);
  if (x.local.data) sum += x.local.head(b, h).at(i, e);
  if (x.gate.data) sum *= x.gate.head(b, h).at(i, e);
  return sum;
}

}  // namespace

std::vector<double> weight_matrix(const AttentionProblem<double>& problem, int64_t b, int64_t h,
                                  Form form) {
  const AttentionInputs<double> x = problem.inputs();
  const AttentionOptions& o = problem.options;
  std::vector<double> matrix(x.q.tokens * x.k.tokens);
  for (int64_t i = 0; i < x.q.tokens; ++i) {
    const Sight sight = sight_of(problem, b, i, form);
    const Side q{features(x.q.head(b, h), i, o.feature), sight.q_rope, i - sight.first_query};
    const double c = problem.about.scale() / (o.key_mean ? static_cast<double>(sight.keys) : 1);
    const MatrixView<const double> keys = x.k.head(b, h / problem.about.group);
    Row plain, turned;
    for (int64_t j = 0; j < sight.keys; ++j) {
      const Side k{features(keys, sight.first_key + j, o.feature), sight.k_rope, j};
      plain.push_back(c * plain_score(q, k));
      turned.push_back(c * turned_score(q, k));
    }
    const Row row = weights(o, o.norm.value_or(usual_norm(o, form)), plain, turned);
    std::copy(row.begin(), row.end(), &matrix[i * x.k.tokens + sight.first_key]);
  }
  return matrix;
}

std::vector<double> weight_matrix_forward(const AttentionProblem<double>& problem, Form form) {
  const Shape shape = problem.out_shape();
  std::vector<double> out;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const std::vector<double> matrix = weight_matrix(problem, b, h, form);
      for (int64_t i = 0; i < shape.tokens; ++i) {
        const Sight sight = sight_of(problem, b, i, form);
        for (int64_t e = 0; e < shape.dim; ++e)
          out.push_back(weighted_value(problem, matrix, sight, {b, h, i, e}));
      }
    }
  }
  return out;
}

}  // namespace mala::test
