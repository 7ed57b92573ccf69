// What lengths and groups must not change, bit by bit, and what may not be read, for every
// instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"
#include "tests/support/every_isa.h"
#include "tests/support/fenced_rows.h"
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

class AttentionLengthsFacts : public IsaTest {};

// Few units of many tokens, which are split; and many.
std::vector<AttentionCase> counted_cases() {
  AttentionCase few{.batch = 3, .heads = 4, .group = 2, .queries = 300, .keys = 700, .dim = 16};
  few.lengths.key_counts = {700, 1, 333};
  AttentionCase many{.batch = 70, .heads = 3, .group = 3, .queries = 5, .keys = 40};
  for (int64_t b = 0; b < many.batch; ++b) many.lengths.key_counts.push_back(1 + b * 7 % many.keys);
  std::vector<AttentionCase> cases{few, many};
  for (AttentionCase& c : cases) {
    c.options.q_rope = c.options.k_rope = Rope::line();
    c.set_tail(3);
  }
  return cases;
}

std::vector<AttentionCase> packed_cases() {
  AttentionCase few{.heads = 4, .group = 2, .dim = 16, .value_dim = 24};
  few.pack({600, 1, 90, 300}, {7, 800, 90, 1});
  AttentionCase many{.heads = 6, .group = 2};
  std::vector<int64_t> q_lengths, k_lengths;
  for (int64_t s = 0; s < 100; ++s) {
    q_lengths.push_back(1 + s * 5 % 23);
    k_lengths.push_back(1 + s * 7 % 31);
  }
  many.pack(q_lengths, k_lengths);
  std::vector<AttentionCase> cases{few, many};
  for (AttentionCase& c : cases) {
    c.options.q_rope = c.options.k_rope = Rope::line(2);
    c.set_tail(3);
  }
  return cases;
}

TEST_P(AttentionLengthsFacts, SameBitsForAnyThreadsRunAfterRun) {
  std::vector<AttentionCase> cases = counted_cases();
  for (const AttentionCase& c : packed_cases()) cases.push_back(c);
  for (AttentionCase& c : cases) {
    for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
      c.options.norm = norm;
      const AttentionProblem<float> problem(c);
      AttentionResults first;
      for (const int64_t threads : {1, 1, 2, 3, 5}) {
        const ThreadCount scope(threads);
        const AttentionResults results = run_kernels(problem);
        if (first.out.empty()) first = results;
        EXPECT_TRUE(same_bits(results, first)) << threads << " threads, " << describe(c);
      }
    }
  }
}

// Keys beyond the count hold NaN in every test; here other numbers give the same bits.
TEST_P(AttentionLengthsFacts, WhatIsBeyondTheCountDoesNotMatter) {
  for (const AttentionCase& c : counted_cases()) {
    AttentionProblem<float> problem(c);
    const AttentionResults with_nan = run_kernels(problem);
    for (Tensor<float>* x : {&problem.k, &problem.v}) {
      std::vector<double> values = x->values();
      for (double& value : values)
        if (std::isnan(value)) value = 1e30;
      x->set_values(values);
    }
    EXPECT_TRUE(same_bits(run_kernels(problem), with_nan)) << describe(c);
    for (const auto* part : {&with_nan.out, &with_nan.q, &with_nan.k, &with_nan.v})
      for (const double x : *part) ASSERT_TRUE(std::isfinite(x)) << describe(c);
  }
}

// A read beyond the count would end this test.
TEST_P(AttentionLengthsFacts, KeysBeyondTheCountNeedNoMemory) {
  constexpr int64_t kKeys = 700;
  for (const int64_t counted : {1, 37, 300}) {
    AttentionCase c{.queries = 20, .keys = counted, .dim = 24, .value_dim = 16};
    const AttentionProblem<float> problem(c);
    const FencedRows k(problem.k.values(), kKeys, c.dim), v(problem.v.values(), kKeys, c.value_dim);
    AttentionInputs<float> inputs = problem.inputs();
    inputs.k = k.view();
    inputs.v = v.view();
    inputs.lengths.key_counts = std::span(&counted, 1);
    Tensor<float> out(problem.out_shape(), Layout::kDense), dq(problem.q.shape(), Layout::kDense),
        dk({1, 1, kKeys, c.dim}, Layout::kDense), dv({1, 1, kKeys, c.value_dim}, Layout::kDense);
    std::vector<float> state(attention_state_size(1, 1, c.dim, c.value_dim));
    std::vector<std::byte> scratch(attention_scratch_bytes(inputs, c.options));
    attention_forward<float>(inputs, c.options, out.view(), state, scratch);
    attention_backward<float>(inputs, c.options, problem.out_gradient.view(), state,
                              {dq.view(), dk.view(), dv.view()}, scratch);

    AttentionResults expected = run_kernels(problem);
    expected.k.resize(kKeys * c.dim);
    expected.v.resize(kKeys * c.value_dim);
    EXPECT_TRUE(same_bits({out.values(), dq.values(), dk.values(), dv.values()}, expected))
        << counted << " keys";
  }
}

TEST_P(AttentionLengthsFacts, CountingAllKeysChangesNoBit) {
  for (AttentionCase c : counted_cases()) {
    c.lengths = {};
    const AttentionResults expected = run_kernels(AttentionProblem<float>(c));
    c.lengths.key_counts.assign(c.batch, c.keys);
    EXPECT_TRUE(same_bits(run_kernels(AttentionProblem<float>(c)), expected)) << describe(c);
  }
}

TEST_P(AttentionLengthsFacts, ASinglePackedSequenceIsTheCallWithoutOffsets) {
  AttentionCase c{.heads = 4, .group = 2, .queries = 700, .keys = 350, .dim = 16};
  c.options.q_rope = c.options.k_rope = Rope::grid(10);
  c.set_tail(3);
  const AttentionResults expected = run_kernels(AttentionProblem<float>(c));
  c.pack({700}, {350});
  EXPECT_TRUE(same_bits(run_kernels(AttentionProblem<float>(c)), expected));
  c.options.q_rope = c.options.k_rope = Rope::grid(3);  // of which the widths take the place
  c.lengths.q_widths = c.lengths.k_widths = {10};
  EXPECT_TRUE(same_bits(run_kernels(AttentionProblem<float>(c)), expected));
}

// A group is the same as that many copies of its head of keys, whose gradients are then summed.
TEST_P(AttentionLengthsFacts, AGroupIsItsHeadOfKeysRepeated) {
  AttentionCase grouped{.heads = 6, .group = 3, .queries = 40, .keys = 50, .dim = 16};
  AttentionCase repeated = grouped;
  repeated.group = 1;
  const AttentionProblem<double> few(grouped);
  AttentionProblem<double> all(repeated);
  auto repeat = [](const Tensor<double>& from, Tensor<double>& to) {
    for (int64_t h = 0; h < 6; ++h)
      for (int64_t j = 0; j < 50; ++j)
        for (int64_t d = 0; d < from.shape().dim; ++d)
          to.view().head(0, h).at(j, d) = from.view().head(0, h / 3).at(j, d);
  };
  repeat(few.k, all.k);
  repeat(few.v, all.v);
  all.q.set_values(few.q.values());
  all.out_gradient.set_values(few.out_gradient.values());

  AttentionResults expected = run_kernels(all);
  auto sum_groups = [](const std::vector<double>& x) {
    const size_t head = x.size() / 6;
    std::vector<double> sums(2 * head);
    for (size_t i = 0; i < x.size(); ++i) sums[i / (3 * head) * head + i % head] += x[i];
    return sums;
  };
  expected.k = sum_groups(expected.k);
  expected.v = sum_groups(expected.v);
  expect_close<double>(run_kernels(few), expected, grouped);
}

// NaN in one sequence or entry stays there.
TEST_P(AttentionLengthsFacts, NanInOneSequenceLeavesTheOthersAsTheyWere) {
  for (const AttentionCase& c : packed_cases()) {
    AttentionProblem<float> problem(c);
    const AttentionResults clean = run_kernels(problem);
    constexpr int64_t kBad = 2;
    for (int64_t j = c.lengths.k_offsets[kBad]; j < c.lengths.k_offsets[kBad + 1]; ++j)
      problem.k.view().head(0, 0).at(j, j % c.dim) = guard_word<float>();
    const AttentionResults spoilt = run_kernels(problem);
    for (int64_t s = 0; s < c.sequences(); ++s)
      EXPECT_EQ(same_bits(sequence_results(spoilt, c, s), sequence_results(clean, c, s)), s != kBad)
          << "sequence " << s;
  }
}

// For each sequence the states of its heads of keys, one after the other, as the header says.
TEST_P(AttentionLengthsFacts, LeavesAStateForEachSequenceAndHeadOfKeys) {
  AttentionCase c{.heads = 6, .group = 3, .dim = 8, .value_dim = 16};
  c.pack({2, 5, 1}, {4, 1, 3});
  const AttentionProblem<double> problem(c);
  const int64_t one = attention_state_size(1, 1, 8, 16);
  Tensor<double> out(problem.out_shape(), Layout::kDense);
  std::vector<double> state(attention_state_size(3, 2, 8, 16));
  std::vector<std::byte> scratch(attention_scratch_bytes(problem.inputs(), c.options));
  attention_forward<double>(problem.inputs(), c.options, out.view(), state, scratch);

  std::vector<double> sums;  // the last part of every state: the sum of v
  std::vector<double> expected;
  for (int64_t s = 0; s < 3; ++s) {
    for (int64_t h = 0; h < 2; ++h) {
      const double* values = &state[(s * 2 + h) * one + one - 16];
      sums.insert(sums.end(), values, values + 16);
      for (int64_t e = 0; e < 16; ++e) {
        double sum = 0;
        for (int64_t j = c.lengths.k_offsets[s]; j < c.lengths.k_offsets[s + 1]; ++j)
          sum += problem.v.view().head(0, h).at(j, e);
        expected.push_back(sum);
      }
    }
  }
  EXPECT_LT(relative_error(sums, expected), 1e-14);
}

// Many units take turns in the memory of the workers.
TEST_P(AttentionLengthsFacts, ScratchDoesNotGrowWithManySequences) {
  std::vector<float> token(64);
  auto scratch_bytes = [&](int64_t sequences) {
    std::vector<int64_t> offsets;
    for (int64_t s = 0; s <= sequences; ++s) offsets.push_back(10 * s);
    const HeadsView<const float> x{token.data(), 1, 1, 10 * sequences, 64, 0, 0, 0, 1};
    return attention_scratch_bytes<float>({x, x, x, {}, {}, {{}, offsets, offsets, {}, {}}}, {});
  };
  EXPECT_EQ(scratch_bytes(100), scratch_bytes(10'000));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionLengthsFacts, testing::ValuesIn(test::tested_isas()),
                         isa_name);

}  // namespace
}  // namespace mala::test
