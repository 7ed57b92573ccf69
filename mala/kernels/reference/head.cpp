// One head of the operator in double: a query against sums, and the gradients of both.
#include "mala/kernels/reference/head.h"

#include <cmath>

#include "mala/kernels/reference/feature.h"

namespace mala::reference {

Row read_row(MatrixView<const double> m, int64_t i) {
  Row row(m.cols);
  for (int64_t j = 0; j < m.cols; ++j) row[j] = m.at(i, j);
  return row;
}

void write_row(MatrixView<double> m, int64_t i, const Row& row) {
  for (int64_t j = 0; j < m.cols; ++j) m.at(i, j) = row[j];
}

void add_row(MatrixView<double> m, int64_t i, const Row& row) {
  for (int64_t j = 0; j < m.cols; ++j) m.at(i, j) += row[j];
}

void set_zero(const HeadsView<double>& x) {
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t h = 0; h < x.heads; ++h)
      for (int64_t i = 0; i < x.tokens; ++i) write_row(x.head(b, h), i, Row(x.dim));
}

Head::Head(const HeadMatrices<const double>& inputs, const AttentionOptions& options)
    : options_(options),
      scale_(options.scale.value_or(1 / std::sqrt(static_cast<double>(inputs.q.cols)))),
      q_(inputs.q),
      k_(inputs.k),
      v_(inputs.v),
      local_(inputs.local),
      gate_(inputs.gate),
      q_rotation_(options.q_rope, inputs.q.cols),
      k_rotation_(options.k_rope, inputs.k.cols) {}

Token Head::query(int64_t i) const {
  Row a = read_row(q_, i);
  for (double& x : a) x = phi(options_.feature, x);
  return {a, q_rotation_.turn(i, a)};
}

Token Head::key(int64_t j) const {
  Row b = read_row(k_, j);
  for (double& x : b) x = phi(options_.feature, x);
  return {b, k_rotation_.turn(j, b)};
}

Row Head::value(int64_t j) const { return read_row(v_, j); }

double Head::c(const Sums& sums) const {
  return options_.key_mean ? scale_ / static_cast<double>(sums.count) : scale_;
}

// s = scale phi(q) . k_mean and r = scale R phi(q) . k_mean_rotated, with kappa taken out.
Magnitudes Head::magnitudes(const Token& query, const Sums& sums) const {
  return {c(sums) * dot(query.plain, sums.k), c(sums) * dot(query.rotated, sums.k_rotated)};
}

// c gain P - shift v_mean
Row Head::attend(const Token& query, const Sums& sums) const {
  const Weighing w = weigh(options_, magnitudes(query, sums));
  const Row p = times_left(query.rotated, sums.kv, sums.v.size());
  Row out(p.size());
  scale_add(c(sums) * w.gain, p, out);
  scale_add(-w.shift / static_cast<double>(sums.count), sums.v, out);
  return out;
}

Row Head::forward(int64_t i, const Sums& sums) const {
  Row out = attend(query(i), sums);
  for (size_t e = 0; e < out.size(); ++e) {
    if (local_.data) out[e] += local_.at(i, e);
    if (gate_.data) out[e] *= gate_.at(i, e);
  }
  return out;
}

Row Head::before_tail(int64_t i, const Row& g) const {
  Row before = g;
  for (size_t e = 0; gate_.data && e < g.size(); ++e) before[e] *= gate_.at(i, e);
  return before;
}

QueryWeights Head::backward_query(int64_t i, const Sums& sums, const Row& g,
                                  const HeadMatrices<double>& gradients) const {
  const Token a = query(i);
  const Row g_attention = before_tail(i, g);
  if (local_.data) write_row(gradients.local, i, g_attention);
  if (gate_.data) {
    Row ungated = attend(a, sums);
    if (local_.data) scale_add(1, read_row(local_, i), ungated);
    for (size_t e = 0; e < g.size(); ++e) ungated[e] *= g[e];
    write_row(gradients.gate, i, ungated);
  }

  // out = c gain P - shift v_mean, so gain and shift get c g . P and -g . v_mean.
  const double c_now = c(sums), count = static_cast<double>(sums.count);
  const Row x = times_right(sums.kv, g_attention);  // S g, and g . P = R phi(q) . x
  const Weighing gradient{c_now * dot(a.rotated, x), -dot(g_attention, sums.v) / count};
  const Magnitudes m = magnitudes(a, sums);
  const Weighing w = weigh(options_, m);
  const Magnitudes dm = weigh_backward(options_, m, gradient);

  Row da_rotated(a.plain.size());
  scale_add(c_now * w.gain, x, da_rotated);
  scale_add(c_now * dm.r, sums.k_rotated, da_rotated);
  Row da = q_rotation_.turn_back(i, da_rotated);
  scale_add(c_now * dm.s, sums.k, da);
  write_row(gradients.q, i, through_feature(da, q_, i));
  return {c_now * w.gain, c_now * dm.s, c_now * dm.r, -w.shift / count};
}

void Head::add_query(int64_t i, const QueryWeights& weights, const Row& g,
                     Sums& sums_gradient) const {
  const Token a = query(i);
  const Row g_attention = before_tail(i, g);
  outer_add(weights.kv, a.rotated, g_attention, sums_gradient.kv);
  scale_add(weights.k, a.plain, sums_gradient.k);
  scale_add(weights.k_rotated, a.rotated, sums_gradient.k_rotated);
  scale_add(weights.v, g_attention, sums_gradient.v);
}

void Head::backward_key(int64_t j, const Sums& sums_gradient,
                        const HeadMatrices<double>& gradients) const {
  Row db_rotated = times_right(sums_gradient.kv, value(j));
  scale_add(1, sums_gradient.k_rotated, db_rotated);
  Row db = k_rotation_.turn_back(j, db_rotated);
  scale_add(1, sums_gradient.k, db);
  add_row(gradients.k, j, through_feature(db, k_, j));

  Row dv = times_left(key(j).rotated, sums_gradient.kv, sums_gradient.v.size());
  scale_add(1, sums_gradient.v, dv);
  add_row(gradients.v, j, dv);
}

// dx = phi'(x) * dphi(x)
Row Head::through_feature(const Row& d_phi, MatrixView<const double> x, int64_t token) const {
  Row dx(d_phi.size());
  for (int64_t d = 0; d < x.cols; ++d)
    dx[d] = phi_slope(options_.feature, x.at(token, d)) * d_phi[d];
  return dx;
}

}  // namespace mala::reference
