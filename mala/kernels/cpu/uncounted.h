// Zeros for the gradients of keys beyond a count, which have no part in the result.
#pragma once

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/plan.h"

namespace mala::cpu {

template <typename T>
void fill_zero(const MatrixView<T>& matrix) {
  for (int64_t i = 0; i < matrix.rows; ++i) {
    for (int64_t j = 0; j < matrix.cols; ++j) matrix.at(i, j) = T{};
  }
}

template <typename T>
void clear_uncounted(const Plan& plan, const Sequences& keys, const AttentionGradients<T>& to) {
  if (keys.counts.empty()) return;
  parallel_for(plan.units(), [&](int64_t unit, int64_t) {
    Sequence rest = keys[plan.sequence(unit)];
    rest.tokens = {rest.tokens.count, keys.tokens - rest.tokens.count};
    fill_zero(cut(to.k, plan.kv_head(unit), rest));
    fill_zero(cut(to.v, plan.kv_head(unit), rest));
  });
}

}  // namespace mala::cpu
