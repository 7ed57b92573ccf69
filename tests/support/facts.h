// What several tests of theorems look at: magnitudes of queries, matrices of weights, and parts of
// dense results.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"

namespace mala::test {

// s of every query of every head of one entry, from its definition, for the feature elu1.
template <typename T>
std::vector<double> magnitudes(const AttentionProblem<T>& p) {
  auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  std::vector<double> all;
  for (int64_t h = 0; h < p.about.heads; ++h) {
    for (int64_t i = 0; i < p.about.queries; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < p.about.keys; ++j)
        for (int64_t d = 0; d < p.about.dim; ++d)
          sum += phi(to_float(p.q.view().head(0, h).at(i, d))) *
                 phi(to_float(p.k.view().head(0, h).at(j, d)));
      all.push_back(p.about.scale() * sum / static_cast<double>(p.about.keys));
    }
  }
  return all;
}

// With v the unit vectors, out is the matrix of weights (N, M): E = M.
template <typename T>
void set_unit_values(AttentionProblem<T>& problem) {
  const int64_t keys = problem.about.keys;
  std::vector<double> unit(keys * keys);
  for (int64_t j = 0; j < keys; ++j) unit[j * keys + j] = 1;
  problem.v.set_values(unit);
}

// The rows of (M, width) in reverse order.
inline std::vector<double> reversed_rows(const std::vector<double>& x, int64_t width) {
  std::vector<double> y(x.size());
  const int64_t rows = static_cast<int64_t>(x.size()) / width;
  for (int64_t i = 0; i < rows; ++i) std::copy_n(&x[i * width], width, &y[(rows - 1 - i) * width]);
  return y;
}

// Row t of out, over all heads.
inline std::vector<double> row_of(const std::vector<double>& out, const AttentionCase& c,
                                  int64_t t) {
  std::vector<double> row;
  for (int64_t h = 0; h < c.batch * c.heads; ++h)
    for (int64_t e = 0; e < c.value_dim; ++e)
      row.push_back(out[(h * c.queries + t) * c.value_dim + e]);
  return row;
}

// The part of a dense (B, H, ...) result that belongs to one head.
inline std::vector<double> head_of(const std::vector<double>& x, const AttentionCase& c,
                                   int64_t index) {
  const int64_t size = static_cast<int64_t>(x.size()) / (c.batch * c.heads);
  return {x.begin() + index * size, x.begin() + (index + 1) * size};
}

inline AttentionResults head_of(const AttentionResults& x, const AttentionCase& c, int64_t index) {
  return {head_of(x.out, c, index), head_of(x.q, c, index),     head_of(x.k, c, index),
          head_of(x.v, c, index),   head_of(x.local, c, index), head_of(x.gate, c, index)};
}

inline bool all_finite(const AttentionResults& r) {
  for (const auto* x : {&r.out, &r.q, &r.k, &r.v, &r.local, &r.gate})
    if (max_error(*x, *x) != 0) return false;
  return true;
}

// Which rows of a dense (1, 1, rows, dim) result differ from the clean one in any bit.
inline std::vector<int64_t> changed_rows(const std::vector<double>& x,
                                         const std::vector<double>& clean, int64_t rows) {
  std::vector<int64_t> changed;
  const int64_t dim = static_cast<int64_t>(x.size()) / rows;
  for (int64_t i = 0; i < rows; ++i) {
    const std::vector<double> row(&x[i * dim], &x[i * dim] + dim);
    const std::vector<double> clean_row(&clean[i * dim], &clean[i * dim] + dim);
    if (!same_bits(row, clean_row)) changed.push_back(i);
  }
  return changed;
}

}  // namespace mala::test
