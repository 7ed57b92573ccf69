// Time per token for growing numbers of tokens, printed as it is measured.
#pragma once

namespace mala::bench {

// Measures softmax, the published formula and ours from 1k to 64k tokens and prints a table and
// bars. Throws mala::Error when ours differs from the published formula.
void show_speed();

}  // namespace mala::bench
