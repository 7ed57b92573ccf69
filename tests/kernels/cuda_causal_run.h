// The causal form run on the GPU on a test's case, between guard words and with poisoned memory.
#pragma once

#include "tests/support/causal_problem.h"

namespace mala::test {

// On the current device. Fails the running test if memory beside an output, a state or the scratch
// was written.
CausalResults run_on_gpu(const CausalProblem<BFloat16>& problem);

// Token by token, of a case without lengths. Without gradients.
CausalResults run_steps_on_gpu(const CausalProblem<BFloat16>& problem);

// Compares it with the definition on the well-conditioned form of the case: results may be twice
// as far off as the definition rounded once, states a few roundings of what they are summed in.
void check_on_gpu(const CausalCase& c);
void check_steps_on_gpu(const CausalCase& c);

}  // namespace mala::test
