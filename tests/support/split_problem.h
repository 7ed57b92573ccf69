// A problem whose tokens are spread over several callers, and the halves of the operator run on it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mala/kernels/split.h"
#include "tests/support/attention_problem.h"

namespace mala::test {

// Every caller has a stretch of every sequence; those of the last one end where the sequences do,
// and alone may have spare keys.
struct SplitCase {
  AttentionCase whole{};
  std::vector<int64_t> q_cuts{},
      k_cuts{};  // tokens at which the second caller begins, the third, ...

  int64_t callers() const { return static_cast<int64_t>(k_cuts.size()) + 1; }
};

// Spreads a case over callers that have some tokens each, one at least and not the same number. Its
// sequences must have as many tokens as there are callers.
SplitCase split_case(const AttentionCase& whole, int64_t callers);

std::string describe(const SplitCase& c);

// The part of a problem that one caller has.
template <typename T>
struct Shard {
  Shard(const SplitCase& c, const AttentionProblem<T>& whole, int64_t caller);

  KeysInputs<T> keys_inputs() const;
  QueriesInputs<T> queries_inputs() const;
  std::vector<int64_t> key_counts() const;  // of each sequence

  std::vector<int64_t> queries, keys;  // which tokens of the whole, the same of every batch entry
  AttentionProblem<T> problem;         // with the numbers of the whole
};

template <typename T>
struct SplitProblem {
  explicit SplitProblem(const SplitCase& c);

  SplitCase about;
  AttentionProblem<T> whole;
  std::vector<std::unique_ptr<Shard<T>>> shards;
};

// What the callers have together. The states and their gradients are added in Compute<T>.
struct SplitResults {
  AttentionResults tokens{};
  std::vector<double> state{}, state_gradient{};
};

// Forward and backward by the halves that are in use, with everything they may not touch guarded,
// and scratch, states and their gradients full of NaN before they are written.
template <typename T>
SplitResults run_halves(const SplitProblem<T>& problem);

bool same_bits(const SplitResults& x, const SplitResults& y);

// Fails the running test where the halves in T differ from the definition of the whole, on the
// well-conditioned form of the case.
template <typename T>
void check_case(const SplitCase& c);

}  // namespace mala::test
