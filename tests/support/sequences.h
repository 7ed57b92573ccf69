// The sequences of a case one by one: batch entries, or those packed into one.
#pragma once

#include "tests/support/attention_problem.h"
#include "tests/support/causal_problem.h"

namespace mala::test {

// The sizes and options of one sequence, as if it were alone.
AttentionCase sequence_case(const AttentionCase& c, int64_t sequence);
CausalCase sequence_case(const CausalCase& c, int64_t sequence);  // without key counts

// Its part of the results, dense (1, H, tokens, dim).
AttentionResults sequence_results(const AttentionResults& all, const AttentionCase& c,
                                  int64_t sequence);
CausalResults sequence_results(const CausalResults& all, const CausalCase& c, int64_t sequence);

// Gives `alone`, a problem of sequence_case, the numbers of that sequence.
template <typename T>
void take_sequence(const AttentionProblem<T>& all, int64_t sequence, AttentionProblem<T>& alone);
template <typename T>
void take_sequence(const CausalProblem<T>& all, int64_t sequence, CausalProblem<T>& alone);

// Gives `part`, a problem with fewer tokens in each entry, the numbers of those from `first` on.
template <typename T>
void take_tokens(const AttentionProblem<T>& all, int64_t first, AttentionProblem<T>& part);

// The gradients of the keys and values of a batch entry that do not count.
std::vector<double> uncounted_gradients(const AttentionResults& all, const AttentionCase& c,
                                        int64_t entry);

// One part of the states of a sequence, of all its heads of keys: S, sum phi(k), sum R phi(k) or
// sum v. States that have not the size of the case are left as they are.
inline constexpr int kStateParts = 4;
std::vector<double> state_part(const std::vector<double>& states, const AttentionCase& c,
                               int64_t sequence, int part);

}  // namespace mala::test
