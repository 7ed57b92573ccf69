// The causal form run on the GPU on a test's case, between guard words and with poisoned memory.
#pragma once

#include "tests/kernels/cuda_memory.h"
#include "tests/support/causal_problem.h"

namespace mala::test {

// On the current device. Fails the running test if memory beside an output, a state or the scratch
// was written. `left_behind` is every byte of the scratch at first.
template <typename T>
CausalResults run_on_gpu(const CausalProblem<T>& problem, Pass pass = Pass::kForwardBackward,
                         int left_behind = kNanBytes);

// The forward of a case with states, where that after takes the place of that before.
CausalResults run_in_place_on_gpu(const CausalProblem<BFloat16>& problem);

// Token by token, of a case without lengths. Without gradients.
CausalResults run_steps_on_gpu(const CausalProblem<BFloat16>& problem);

// Sums of products of two parts each, in float, as a share of the largest: some 2^-20 were seen.
inline constexpr double kSumsError = 0x1p-18;

// Results may be twice as far off as those expected rounded once, and sums of a state by a share.
template <typename T>
void expect_gpu_close(const CausalResults& actual, const CausalResults& expected,
                      const CausalCase& c, double sums_error = kSumsError);

// Compares with the definition on the well-conditioned form of the case.
void check_on_gpu(const CausalCase& c);
void check_steps_on_gpu(const CausalCase& c);

}  // namespace mala::test
