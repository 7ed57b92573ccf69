// The kinds of kernels that the GPU has: a call that goes to each, in both forms, and how exact
// they are.
#pragma once

#include "tests/kernels/cuda_attention_run.h"
#include "tests/kernels/cuda_causal_run.h"
#include "tests/support/sequence_comparison.h"
#include "tests/support/sequences.h"

namespace mala::test {

// A form of the operator, with sizes and turns that go to one kind of kernels.
struct Kernels {
  Form form;
  int64_t queries, keys, dim, value_dim;
  Rope::Kind turned;
};
inline constexpr Kernels kKernels[] = {
    {Form::kBidirectional, 70, 100, 64, 64, Rope::Kind::kGrid},   // whole heads by warpgroups
    {Form::kBidirectional, 20, 330, 64, 64, Rope::Kind::kLine},   // and by clusters of blocks
    {Form::kBidirectional, 20, 2100, 64, 64, Rope::Kind::kLine},  // heads that are spread
    {Form::kBidirectional, 20, 330, 96, 96, Rope::Kind::kGrid},   // parts of heads by warpgroups
    {Form::kBidirectional, 21, 140, 24, 40, Rope::Kind::kGrid},   // those for all
    {Form::kCausal, 100, 100, 64, 64, Rope::Kind::kLine},         // sweeps by warpgroups
    {Form::kCausal, 100, 100, 24, 40, Rope::Kind::kGrid},         // sweeps for all
};

inline AttentionCase case_of(const Kernels& kernels, Rule rule, Norm norm, Rope::Kind kind) {
  AttentionCase c{.queries = kernels.queries, .keys = kernels.keys};
  c.dim = kernels.dim;
  c.value_dim = kernels.value_dim;
  c.options = options_of(rule, norm);
  c.options.q_rope = c.options.k_rope = some_rope(kind, 0);
  return c;
}

// The causal form without a state. `left_behind` is every byte of the scratch at first.
template <typename T>
AttentionResults run_on_gpu(const AttentionProblem<T>& problem, Form form,
                            Pass pass = Pass::kForwardBackward, int left_behind = kNanBytes) {
  if (form == Form::kBidirectional) return run_on_gpu(problem, pass, left_behind);
  CausalProblem<T> causal({.tokens = problem.about, .after = false, .before_gradient = false});
  take_tokens(problem, 0, causal.tokens);
  return run_on_gpu(causal, pass, left_behind).tokens;
}

// The last rounding of a result, at most: half the distance between neighbours beyond one.
template <typename T>
inline constexpr double kRounding = std::is_same_v<T, BFloat16>  ? 0x1p-8
                                    : std::is_same_v<T, Float16> ? 0x1p-11
                                                                 : 0x1p-24;
// What is lost before it, of the terms: features of bfloat16 enter products with 11 bits, so that
// each is off by up to 2^-12; other types enter in two parts, whose sums are cut off.
template <typename T>
inline constexpr double kOfTerms = std::is_same_v<T, BFloat16> ? 0x1p-12 : 1e-5;

// How many keys each query sees.
inline Sight sight_of(const AttentionCase& c, Form form) {
  return form == Form::kCausal ? causal_sight_of(c, 0) : sight_of(c);
}

// How far results of a size may be off.
template <typename T>
double allowed(double size, const AttentionCase& c, Form form) {
  return kRounding<T> * size + kOfTerms<T> * TermSizes(c, sight_of(c, form)).out;
}

}  // namespace mala::test
