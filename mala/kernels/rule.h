// How a query's magnitude s turns into weights: out = c * gain(s) * P - shift(s) * mean(v).
#pragma once

#include "mala/core/views.h"
#include "mala/kernels/attention.h"

namespace mala {

// The rotated scores of text do not cancel s: only the balanced norm suits a causal mala.
inline Norm norm_of(const AttentionOptions& options, bool causal) {
  const bool balanced = causal && options.rule == Rule::kMala;
  return options.norm.value_or(balanced ? Norm::kBalanced : Norm::kPublished);
}

template <typename T>
struct RuleTerms {
  T gain, gain_slope;
  T shift, shift_slope;
};

// `inverse` is 1 / (s + eps).
template <typename T>
MALA_INLINE RuleTerms<T> rule_terms_of(Rule rule, T s, T inverse) {
  // Choices of numbers, not of ways: nobody has to branch for them.
  const bool is_linear = rule == Rule::kLinear, is_inline = rule == Rule::kInline;
  const T by_inverse = is_inline ? T(0) : inverse;
  const T by_one = is_linear ? T(0) : T(1);
  return {by_one + by_inverse, -by_inverse * by_inverse,
          is_linear ? T(0) : s - (is_inline ? T(1) : T(0)), by_one};
}
template <typename T>
MALA_INLINE RuleTerms<T> rule_terms(Rule rule, T s, T eps) {
  return rule_terms_of(rule, s, T(1) / (s + eps));
}

}  // namespace mala
