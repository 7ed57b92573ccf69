// What the rule makes of the queries of a block: the two weights of each, and their slopes.
#if defined(MALA_CPU_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_WEIGHTS_INL_H_
#undef MALA_CPU_WEIGHTS_INL_H_
#else
#define MALA_CPU_WEIGHTS_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/rows-inl.h"
#include "mala/kernels/rule.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// attention_i = product[i] * P_i + mean[i] * mean value.
template <typename T>
struct Weights {
  T product[kBlock], product_slope[kBlock];
  T mean[kBlock], mean_slope[kBlock];
};

// From the features that make the magnitude. The balanced norm works on the centred state: its
// mean value has weight one.
template <typename T>
HWY_INLINE void compute_weights(const Weighting& weighting, Rows<const T> features, int64_t count,
                                const T* key, Weights<T>& weights) {
  const bool centred = weighting.centred();
  const T c = static_cast<T>(weighting.c), eps = static_cast<T>(weighting.eps);
  for (int64_t i = 0; i < count; ++i) {
    const T s = dot(features.row(i), key, features.stride);
    const RuleTerms<T> terms = rule_terms(weighting.rule, s, eps);
    weights.product[i] = c * terms.gain;
    weights.product_slope[i] = c * terms.gain_slope;
    weights.mean[i] = centred ? T(1) : -terms.shift;
    weights.mean_slope[i] = centred ? T(0) : -terms.shift_slope;
  }
}

// finish(row, column, attention) for each vector of the block's output, before the tail.
template <typename T, class Finish>
HWY_INLINE void compute_attention(Rows<T> rotated, const HeadOperands<T>& head,
                                  const Weights<T>& weights, Extent size, Finish finish,
                                  Prefetch& meanwhile) {
  const hn::ScalableTag<T> d;
  compute_product<T>(
      Plain<T>{rotated.data, rotated.stride}, Right<T>{head.state, size.columns}, size,
      [&](int64_t row, int64_t column, hn::Vec<decltype(d)> product) HWY_ATTR {
        if (row >= size.rows) return;
        const auto mean =
            hn::Mul(hn::Set(d, weights.mean[row]), hn::LoadU(d, head.value_mean + column));
        finish(row, column, hn::MulAdd(product, hn::Set(d, weights.product[row]), mean));
      },
      meanwhile);
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
