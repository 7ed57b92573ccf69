// How far results in narrow types may be from the definition: a few times what rounding it costs.
#pragma once

#include "tests/support/sequence_comparison.h"

namespace mala::test {

// Fails the running test where a part of the results of one sequence is further off than twice the
// definition rounded once; a gate adds one rounding of the terms. Whether all were close.
template <typename T>
bool expect_roundings(const AttentionResults& actual, const AttentionResults& expected,
                      const AttentionCase& one, const Sight& sight);

}  // namespace mala::test
