// The sequences of a case one by one: batch entries, or those packed into one.
#pragma once

#include "tests/support/attention_problem.h"

namespace mala::test {

// The sizes and options of one sequence, as if it were alone.
AttentionCase sequence_case(const AttentionCase& c, int64_t sequence);

// Its part of the results, dense (1, H, tokens, dim).
AttentionResults sequence_results(const AttentionResults& all, const AttentionCase& c,
                                  int64_t sequence);

// The gradients of the keys and values of a batch entry that do not count.
std::vector<double> uncounted_gradients(const AttentionResults& all, const AttentionCase& c,
                                        int64_t entry);

}  // namespace mala::test
