// Random legal calls of the operator, drawn over everything a caller may ask for.
#pragma once

#include <functional>
#include <string>

#include "tests/support/attention_case.h"
#include "tests/support/random.h"

namespace mala::test {

// Well-conditioned, and not too large for the definition, which is slow.
AttentionCase draw_case(Random& random);

// So many calls with random numbers of the instruction set's own, up to the first that fails: its
// message has the whole case. MALA_TEST_SEED=n draws those of an earlier run again.
void run_random_calls(const std::string& isa, int calls, const std::function<void(Random&)>& call);

}  // namespace mala::test
