// The rules and the norms: gain, shift, and their slopes.
#include "mala/kernels/reference/rule.h"

#include "mala/kernels/rule.h"

namespace mala::reference {
namespace {

double gain(Rule rule, double s, double eps) {
  switch (rule) {
    case Rule::kMala:
      return 1 + 1 / (s + eps);
    case Rule::kLinear:
      return 1 / (s + eps);
    case Rule::kInline:
      break;
  }
  return 1;
}

double gain_slope(Rule rule, double s, double eps) {
  return rule == Rule::kInline ? 0 : -1 / ((s + eps) * (s + eps));
}

double shift(Rule rule, double s) {
  switch (rule) {
    case Rule::kMala:
      return s;
    case Rule::kInline:
      return s - 1;
    case Rule::kLinear:
      break;
  }
  return 0;
}

double shift_slope(Rule rule) { return rule == Rule::kLinear ? 0 : 1; }

}  // namespace

Weighing weigh(const AttentionOptions& options, Magnitudes m) {
  const Rule rule = options.rule;
  const double eps = options.eps;
  switch (norm_of(options, false)) {
    case Norm::kPublished:
      return {gain(rule, m.s, eps), shift(rule, m.s)};
    case Norm::kPrinted:
      return {gain(rule, m.r, eps), shift(rule, m.r)};
    case Norm::kBalanced:
      break;
  }
  // The shift that makes every row sum to one, whatever eps is.
  return {gain(rule, m.s, eps), gain(rule, m.s, eps) * m.r - 1};
}

Magnitudes weigh_backward(const AttentionOptions& options, Magnitudes m, Weighing gradient) {
  const Rule rule = options.rule;
  const double eps = options.eps;
  switch (norm_of(options, false)) {
    case Norm::kPublished:
      return {.s = gain_slope(rule, m.s, eps) * gradient.gain + shift_slope(rule) * gradient.shift};
    case Norm::kPrinted:
      return {.r = gain_slope(rule, m.r, eps) * gradient.gain + shift_slope(rule) * gradient.shift};
    case Norm::kBalanced:
      break;
  }
  return {.s = gain_slope(rule, m.s, eps) * (gradient.gain + m.r * gradient.shift),
          .r = gain(rule, m.s, eps) * gradient.shift};
}

}  // namespace mala::reference
