// The states of a causal case, and the definition run on it.
#include "tests/support/causal_problem.h"

#include "mala/kernels/reference/causal.h"
#include "mala/kernels/reference/feature.h"
#include "mala/kernels/reference/sums.h"
#include "tests/support/reference_tensors.h"

namespace mala::test {
namespace {

// A table has a row for every token since the beginning of its sequence.
AttentionCase with_rows_before(const CausalCase& c) {
  AttentionCase tokens = c.tokens;
  tokens.table_spare += c.most_before();
  return tokens;
}

// What so many tokens may have left behind: those of a few keys, each taken many times.
reference::Sums some_sums(const AttentionCase& c, int64_t count, Random& random) {
  constexpr int64_t kKeys = 5;
  constexpr int64_t kFurthest = 100;
  reference::Sums sums(c.dim, c.value_dim);
  if (count == 0) return sums;
  const bool turned = c.options.k_rope.kind != Rope::Kind::kNone;
  const reference::Rotation rotation(turned ? Rope::line() : Rope::none(), c.dim);
  for (int64_t j = 0; j < kKeys; ++j) {
    reference::Row key(c.dim), value(c.value_dim);
    for (double& x : key) x = reference::phi(c.options.feature, random.uniform(c.k_low, c.k_high));
    for (double& x : value) x = random.uniform(-0.5, 1.5);
    add_key(sums, {key, rotation.turn(random.integer(0, kFurthest), key)}, value);
  }
  const double times = static_cast<double>(count) / static_cast<double>(kKeys);
  for (auto part : {&sums.kv, &sums.k, &sums.k_rotated, &sums.v})
    for (double& x : *part) x *= times;
  return sums;
}

}  // namespace

template <typename T>
CausalProblem<T>::CausalProblem(const CausalCase& c) : about(c), tokens(with_rows_before(c)) {
  Random random(c.tokens.seed + 3);
  if (!c.before.empty()) {
    sums.resize(c.state_size());
    double* to = sums.data();
    for (const int64_t count : c.before) {
      for (int64_t h = 0; h < c.tokens.kv_heads(); ++h) {
        write_sums(some_sums(c.tokens, count, random), to);
        to += attention_state_size(1, 1, c.tokens.dim, c.tokens.value_dim);
      }
    }
  }
  if (c.after) {
    after_gradient.resize(c.state_size());
    for (double& x : after_gradient) x = random.uniform(-0.3, 0.3);
  }
}

template <typename T>
CausalResults run_reference(const CausalProblem<T>& problem, Pass pass) {
  const CausalCase& c = problem.about;
  ReferenceTensors x(problem.tokens);
  const CausalInputs<double> inputs{x.inputs(), problem.before()};
  CausalResults results;
  results.after.resize(c.after ? c.state_size() : 0);
  results.counts.resize(c.after ? c.tokens.sequences() : 0);
  reference::causal_forward(inputs, problem.tokens.options, x.out(),
                            {results.after, results.counts});
  if (pass == Pass::kForwardBackward) {
    results.before_gradient.resize(c.before_gradient ? c.state_size() : 0);
    reference::causal_backward(inputs, problem.tokens.options,
                               {x.out_gradient(), problem.after_gradient},
                               {x.gradients(), results.before_gradient});
  }
  results.tokens = x.results();
  return results;
}

#define MALA_INSTANTIATE(T)         \
  template struct CausalProblem<T>; \
  template CausalResults run_reference(const CausalProblem<T>&, Pass)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
