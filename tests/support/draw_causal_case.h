// Random legal calls of the causal form, drawn over everything a caller may ask for.
#pragma once

#include <vector>

#include "tests/support/causal_case.h"
#include "tests/support/random.h"

namespace mala::test {

// Well-conditioned, and not too large for the definition, which is slow.
CausalCase draw_causal_case(Random& random);

// Chunks from a single token to more than a block, of so many tokens together.
std::vector<int64_t> draw_chunks(Random& random, int64_t tokens);

}  // namespace mala::test
