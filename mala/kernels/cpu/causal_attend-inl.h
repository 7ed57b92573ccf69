// A block's queries: their magnitudes, what the rule makes of them, and their attention to the keys
// before the block and in it.
#if defined(MALA_CPU_CAUSAL_ATTEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_ATTEND_INL_H_
#undef MALA_CPU_CAUSAL_ATTEND_INL_H_
#else
#define MALA_CPU_CAUSAL_ATTEND_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_sweep-inl.h"
#include "mala/kernels/rule.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What the rule makes of a token: attention = product * P + mean * mean value, and the rest is for
// the backward.
template <typename T>
struct TokenTerms {
  T product[kBlock], mean[kBlock];
  T gain[kBlock], gain_slope[kBlock], shift_slope[kBlock], r[kBlock];
};

// The magnitudes of a member's queries: s from their features as they are, r from the rotated.
template <typename T>
class QueryBlock {
 public:
  QueryBlock(const CausalWeighting& weighting, const KeySweep<T>& keys)
      : weighting_(weighting), keys_(keys) {}

  HWY_INLINE void measure_plain(Rows<const T> features, int64_t count) {
    if (weighting_.needs_plain()) measure(features, keys_.key_sums, count, s_);
  }
  HWY_INLINE void measure_rotated(Rows<const T> features, int64_t count) {
    if (weighting_.needs_rotated()) measure(features, keys_.rotated_key_sums, count, r_);
  }

  // The same r, from the scores (kBlock, kBlock) of the block's keys that go into the products:
  // what they are off by then meets itself where products and means cancel, as in a block about
  // zero.
  HWY_INLINE void measure_rotated(Rows<const T> features, const T* scores, int64_t count) {
    if (!weighting_.needs_rotated()) return;
    for (int64_t i = 0; i < count; ++i) {
      const T before = dot(features.row(i), keys_.rotated_keys_before, features.stride);
      r_[i] = keys_.c[i] * (before + sum_first(scores + i * kBlock, std::min(i + 1, keys_.count)));
    }
  }

  HWY_INLINE void weigh(int64_t count, TokenTerms<T>& terms) const {
    const T eps = static_cast<T>(weighting_.eps);
    for (int64_t i = 0; i < count; ++i) {
      const T magnitude = weighting_.needs_plain() ? s_[i] : r_[i];
      const RuleTerms<T> rule = rule_terms(weighting_.rule, magnitude, eps);
      const bool balanced = weighting_.norm == Norm::kBalanced;
      terms.product[i] = keys_.c[i] * rule.gain;
      terms.mean[i] = balanced ? T(1) - rule.gain * r_[i] : -rule.shift;
      terms.gain[i] = rule.gain;
      terms.gain_slope[i] = rule.gain_slope;
      terms.shift_slope[i] = rule.shift_slope;
      terms.r[i] = r_[i];
    }
  }

 private:
  HWY_INLINE void measure(Rows<const T> features, Rows<const T> sums, int64_t count, T* to) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = keys_.c[i] * dot(features.row(i), sums.row(i), sums.stride);
    }
  }

  const CausalWeighting& weighting_;
  const KeySweep<T>& keys_;
  T s_[kBlock] = {}, r_[kBlock] = {};
};

// tiles.scores of the queries with the block's keys, whose rotated form stands in
// tiles.dim_columns, side by side.
template <typename T>
HWY_INLINE void compute_scores(Rows<const T> rotated_queries, const KeySweep<T>& keys,
                               int64_t count, const CausalTiles<T>& tiles, Prefetch& meanwhile) {
  multiply(rotated_queries, Right<T>{tiles.dim_columns, kBlock}, {count, kBlock, keys.layout().dim},
           tiles.scores, meanwhile);
}

// scores = product * scores + mean / keys: what a key of the block counts for a query. The two
// nearly cancel where r is large, and cost fewer digits here than in the sums over keys.
template <typename T>
HWY_INLINE void weigh_scores(const TokenTerms<T>& terms, const T* inverse_count, int64_t count,
                             T* scores) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < count; ++i) {
    const auto product = hn::Set(d, terms.product[i]);
    const auto mean = hn::Set(d, terms.mean[i] * inverse_count[i]);
    for (int64_t j = 0; j < kBlock; j += static_cast<int64_t>(hn::Lanes(d))) {
      T* at = scores + i * kBlock + j;
      hn::StoreU(hn::MulAdd(product, hn::LoadU(d, at), mean), d, at);
    }
  }
}

// products = the attention of the keys before the block, from their products, and the centre.
template <typename T>
HWY_INLINE void weigh_products(const TokenTerms<T>& terms, const KeySweep<T>& keys, Extent size,
                               T* products) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < size.rows; ++i) {
    const auto product = hn::Set(d, terms.product[i]);
    const auto mean = hn::Set(d, terms.mean[i] * keys.inverse_count[i]);
    for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
      T* at = products + i * size.columns + j;
      auto y = hn::Mul(mean, hn::LoadU(d, keys.values_before + j));
      if (keys.centre()) y = hn::Add(y, hn::LoadU(d, keys.centre() + j));
      hn::StoreU(hn::MulAdd(product, hn::LoadU(d, at), y), d, at);
    }
  }
}

// tiles.attention (kBlock, E) = that of the queries: to the keys before the block, and to those in
// it up to each token, whose scores in the tiles become weights.
template <typename T>
HWY_INLINE void attend(Rows<const T> rotated_queries, const KeySweep<T>& keys,
                       const TokenTerms<T>& terms, int64_t count, const CausalTiles<T>& tiles,
                       Prefetch& meanwhile) {
  const StateLayout& layout = keys.layout();
  const Extent size{count, layout.value_pad(), layout.dim};
  T* to = tiles.attention;
  multiply(rotated_queries, Right<T>{keys.products, layout.value_pad()}, size, to, meanwhile);
  weigh_products(terms, keys, size, to);
  weigh_scores(terms, keys.inverse_count, count, tiles.scores);
  add_triangular<UpToDiagonal>(tiles.scores, Right<T>{keys.values.data, keys.values.stride},
                               {count, layout.value_pad(), keys.count}, to, meanwhile);
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
