// The operator a second time, as a full matrix of weights: what attention papers print, at a cost
// of N * M. Shares no code with the definition, so that each checks the other.
#pragma once

#include <vector>

#include "mala/kernels/attention.h"
#include "tests/support/attention_problem.h"

namespace mala::test {

// The weights of head (b, h), (N, M) row by row: out_i = sum_j A_ij v_j before the tail, zero for
// all keys that the query does not see: those of other sequences, beyond the count, or still to
// come in the causal form.
std::vector<double> weight_matrix(const AttentionProblem<double>& problem, int64_t b, int64_t h,
                                  Form form);

// out of all heads, tail included, dense (B, H, N, E).
std::vector<double> weight_matrix_forward(const AttentionProblem<double>& problem, Form form);

}  // namespace mala::test
