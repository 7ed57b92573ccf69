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
  switch (rule) {
    case Rule::kMala:
      return {T(1) + inverse, -inverse * inverse, s, T(1)};
    case Rule::kLinear:
      return {inverse, -inverse * inverse, T(0), T(0)};
    case Rule::kInline:
      break;
  }
  return {T(1), T(0), s - T(1), T(1)};
}
template <typename T>
MALA_INLINE RuleTerms<T> rule_terms(Rule rule, T s, T eps) {
  return rule_terms_of(rule, s, T(1) / (s + eps));
}

}  // namespace mala
