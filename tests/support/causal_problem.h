// The tensors and the states of a causal case, and the operator run on them: by the definition and
// by the kernels.
#pragma once

#include <vector>

#include "mala/kernels/causal.h"
#include "tests/support/attention_problem.h"
#include "tests/support/causal_case.h"

namespace mala::test {

// Beside those of the tokens: the state after, and the gradient of the sums before; empty where
// they are not asked for.
struct CausalResults {
  AttentionResults tokens{};
  std::vector<double> after{}, before_gradient{};
  std::vector<int64_t> counts{};
};

template <typename T>
struct CausalProblem {
  explicit CausalProblem(const CausalCase& c);

  CausalState before() const { return {sums, about.before}; }
  CausalInputs<T> inputs() const { return {tokens.inputs(), before()}; }

  CausalCase about;
  AttentionProblem<T> tokens;
  std::vector<double> sums;            // before the call; empty: no state is given
  std::vector<double> after_gradient;  // of the sums after; empty: none
};

// The definition on the same numbers, in double.
template <typename T>
CausalResults run_reference(const CausalProblem<T>& problem, Pass pass = Pass::kForwardBackward);

// The kernels that are in use, with everything they may not touch guarded, and scratch and outputs
// full of NaN. Fails the test if they write beside their outputs or to their inputs.
template <typename T>
CausalResults run_kernels(const CausalProblem<T>& problem, Pass pass = Pass::kForwardBackward);

}  // namespace mala::test
