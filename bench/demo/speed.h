// Time per token for growing numbers of tokens, printed as it is measured.
#pragma once

#include <cstdint>

namespace mala::bench {

constexpr int64_t kFewestTokens = 1024, kMostTokens = 65536;

// Measures softmax, the published formula and ours from kFewestTokens on and prints a table and
// bars. Throws mala::Error when ours differs from the published formula.
void show_speed(int64_t most_tokens = kMostTokens);

}  // namespace mala::bench
