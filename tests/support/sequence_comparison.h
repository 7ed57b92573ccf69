// How far the results of one sequence may be from the expected ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/attention_problem.h"

namespace mala::test {

// How many keys each query of a sequence sees.
using Sight = std::vector<int64_t>;
Sight sight_of(const AttentionCase& one);
Sight causal_sight_of(const AttentionCase& one, int64_t before);

// The sizes of the terms whose sums and differences the results are, for data about one: results
// can be far smaller, the gradients of q and k for a single key are nothing at all. out and the
// gradient of v are differences of numbers about s times as large.
struct TermSizes {
  TermSizes(const AttentionCase& c, const Sight& sight);

  double features = 1;
  double out = 0, q = 0, k = 0, v = 0;
  double kv = 0;  // of the gradient of S; those of the other sums are as large as those of k and v
};

// Compares the results of kernels in T, part by part. Each fails the running test where the error
// is larger than rounding explains.
template <typename T>
class SequenceComparison {
 public:
  // With so many tokens before the call.
  SequenceComparison(const AttentionCase& one, const Sight& sight, int64_t before);

  const TermSizes& sizes() const { return sizes_; }
  bool close() const { return close_; }  // whether all of them were

  // `moved`: as for expect_close.
  void expect_tokens(const AttentionResults& actual, const AttentionResults& expected,
                     const AttentionResults& moved);

  // States and their gradients are not rounded to T.
  void expect_state(const std::string& what, const std::vector<double>& actual,
                    const std::vector<double>& expected, double term_size);

 private:
  struct Measured {
    double error, largest, term_size, move;
  };
  void expect_small(const std::string& what, const Measured& measured);

  AttentionCase case_;
  TermSizes sizes_;
  double relative_;  // to the largest term
  bool close_ = true;
};

}  // namespace mala::test
