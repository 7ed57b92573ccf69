// The kernels in use against the definition, on one case.
#pragma once

#include "tests/support/attention_case.h"
#include "tests/support/causal_case.h"

namespace mala::test {

// Fails the running test where the kernels in T, forward or backward, differ from the definition
// on the well-conditioned form of the case. Expected results are kept for the next instruction set.
template <typename T>
void check_case(const AttentionCase& c);
template <typename T>
void check_case(const CausalCase& c);

}  // namespace mala::test
