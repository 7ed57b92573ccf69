// How far results are from the expected ones, and how far they may be.
#pragma once

#include <vector>

#include "tests/support/attention_problem.h"
#include "tests/support/causal_problem.h"

namespace mala::test {

// Fails the running test, with the whole case, where a result of kernels in T differs from the
// expected one by more than rounding explains, which depends on the sizes of the sequence, or where
// a key beyond the count has a gradient. Stops at the first sequence that is wrong. For
// ill-conditioned cases `moved` is the definition on inputs that were changed by a rounding:
// results may then be off by a few times that, too.
template <typename T>
void expect_close(const AttentionResults& actual, const AttentionResults& expected,
                  const AttentionCase& c, const AttentionResults& moved = {});

// The same for the causal form, its states and their gradients, part by part.
template <typename T>
void expect_close(const CausalResults& actual, const CausalResults& expected, const CausalCase& c);

// The largest |actual - expected|; infinite where one is NaN or the sizes differ.
double max_error(const std::vector<double>& actual, const std::vector<double>& expected);
double max_size(const std::vector<double>& values);

// max_error over the largest |expected|.
double relative_error(const std::vector<double>& actual, const std::vector<double>& expected);

// Whether all bits agree, those of NaN too.
bool same_bits(const std::vector<double>& x, const std::vector<double>& y);
bool same_bits(const AttentionResults& x, const AttentionResults& y);
bool same_bits(const CausalResults& x, const CausalResults& y);

}  // namespace mala::test
