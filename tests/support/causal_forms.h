// A causal problem worked off in other ways than by one call: in chunks and token by token, by the
// definition or by the kernels in use.
#pragma once

#include <functional>
#include <vector>

#include "tests/support/causal_problem.h"

namespace mala::test {

// Who carries out the calls.
template <typename T>
struct CausalCalls {
  std::function<void(const CausalInputs<T>&, const AttentionOptions&, HeadsView<T>,
                     const CausalStateAfter&)>
      forward;
  std::function<void(const CausalInputs<T>&, const AttentionOptions&,
                     const CausalOutputGradients<T>&, const CausalInputGradients<T>&)>
      backward;
};

CausalCalls<double> definition_calls();

// With scratch of exactly the size that they ask for, full of NaN.
template <typename T>
CausalCalls<T> kernel_calls();

// Chunks of so many tokens, whose sum is that of the case (without lengths). The state is handed on
// from chunk to chunk, and its gradient back.
template <typename T>
CausalResults run_in_chunks(const CausalProblem<T>& problem, const std::vector<int64_t>& sizes,
                            const CausalCalls<T>& calls);

// causal_step for every token of a case without lengths. Without gradients.
template <typename T>
CausalResults run_by_steps(const CausalProblem<T>& problem);

// The same views of some tokens.
template <typename T>
HeadsView<T> tokens_of(HeadsView<T> x, int64_t first, int64_t count) {
  if (x.data) x.data += first * x.token_stride;
  x.tokens = count;
  return x;
}

template <typename T>
AttentionInputs<T> tokens_of(const AttentionInputs<T>& x, int64_t first, int64_t count) {
  auto cut = [&](const auto& tensor) { return tokens_of(tensor, first, count); };
  return {cut(x.q), cut(x.k), cut(x.v), cut(x.local), cut(x.gate), x.lengths};
}

template <typename T>
AttentionGradients<T> tokens_of(const AttentionGradients<T>& x, int64_t first, int64_t count) {
  auto cut = [&](const auto& tensor) { return tokens_of(tensor, first, count); };
  return {cut(x.q), cut(x.k), cut(x.v), cut(x.local), cut(x.gate)};
}

}  // namespace mala::test
