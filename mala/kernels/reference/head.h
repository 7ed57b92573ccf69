// One head of one sequence, token by token: what the bidirectional and the causal form share.
#pragma once

#include "mala/kernels/reference/pieces.h"
#include "mala/kernels/reference/rule.h"
#include "mala/kernels/reference/sums.h"

namespace mala::reference {

// How much of a query goes into the gradient of each of the four sums.
struct QueryWeights {
  double kv = 0, k = 0, k_rotated = 0, v = 0;
};

class Head {
 public:
  Head(const HeadMatrices<const double>& inputs, const AttentionOptions& options);

  int64_t queries() const { return q_.rows; }
  int64_t keys() const { return k_.rows; }
  Token query(int64_t i) const;
  Token key(int64_t j) const;
  Row value(int64_t j) const;
  Sums no_sums() const { return {q_.cols, v_.cols}; }

  // out_i = (attention + local) * gate, for a query that sees the keys in `sums`.
  Row forward(int64_t i, const Sums& sums) const;

  // The gradient of out_i before the tail: g * gate.
  Row before_tail(int64_t i, const Row& g) const;

  // From g, the gradient of out_i: writes that of q_i and of the tail; returns the weights with
  // which add_query then takes the query into the gradient of the sums.
  QueryWeights backward_query(int64_t i, const Sums& sums, const Row& g,
                              const HeadMatrices<double>& gradients) const;
  void add_query(int64_t i, const QueryWeights& weights, const Row& g, Sums& sums_gradient) const;

  // From the gradient of the sums that key j went into: adds to those of k_j and v_j, which several
  // query heads may share.
  void backward_key(int64_t j, const Sums& sums_gradient,
                    const HeadMatrices<double>& gradients) const;

 private:
  double c(const Sums& sums) const;  // scale * kappa
  Magnitudes magnitudes(const Token& query, const Sums& sums) const;
  Row attend(const Token& query, const Sums& sums) const;  // out_i before the tail
  Row through_feature(const Row& d_phi, MatrixView<const double> x, int64_t token) const;

  AttentionOptions options_;
  double scale_;
  MatrixView<const double> q_, k_, v_, local_, gate_;
  Rotation q_rotation_, k_rotation_;
};

Row read_row(MatrixView<const double> m, int64_t i);
void write_row(MatrixView<double> m, int64_t i, const Row& row);
void add_row(MatrixView<double> m, int64_t i, const Row& row);
void set_zero(const HeadsView<double>& x);

}  // namespace mala::reference
