// What must not disturb the kernels of the GPU: neighbours, earlier calls, what is beyond a count,
// and numbers that are not finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/cuda_kinds.h"
#include "tests/support/compare.h"
#include "tests/support/facts.h"

namespace mala::test {
namespace {

template <typename T>
class GpuRobustness : public GpuTest {};
TYPED_TEST_SUITE(GpuRobustness, DeviceTypes, TypeNames);

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

AttentionCase some_case(const Kernels& kernels, int64_t batch, int64_t heads) {
  AttentionCase c = case_of(kernels, Rule::kMala, Norm::kBalanced, kernels.turned);
  c.batch = batch;
  c.heads = heads;
  c.set_tail(3);
  return c;
}

AttentionCase packed_case(const Kernels& kernels) {
  AttentionCase c = some_case(kernels, 1, 1);
  const bool causal = kernels.form == Form::kCausal;
  c.pack({1, 70}, causal ? std::vector<int64_t>{1, 70} : std::vector<int64_t>{90, 1});
  return c;
}

// Heads may fall into other parts where there are more of them: results agree to rounding.
TYPED_TEST(GpuRobustness, ASequenceAloneIsThatSequenceAmongOthers) {
  for (const Kernels& kernels : kKernels) {
    for (const AttentionCase& c : {some_case(kernels, 2, 1), packed_case(kernels)}) {
      const AttentionProblem<TypeParam> all(c);
      const AttentionResults together = run_on_gpu(all, kernels.form);
      for (int64_t s = 0; s < c.sequences(); ++s) {
        const AttentionCase one = sequence_case(c, s);
        AttentionProblem<TypeParam> alone(one);
        take_sequence(all, s, alone);
        const AttentionResults actual = run_on_gpu(alone, kernels.form);
        const AttentionResults expected = sequence_results(together, c, s);
        SCOPED_TRACE(str("sequence ", s));
        if (kernels.form == Form::kBidirectional) {
          expect_gpu_close<TypeParam>(actual, expected, one);
        } else {
          expect_gpu_close<TypeParam>(CausalResults{actual}, CausalResults{expected}, {one});
        }
      }
    }
  }
}

TYPED_TEST(GpuRobustness, WhatIsNoNumberInOneHeadLeavesTheOthersAsTheyWere) {
  for (const Kernels& kernels : kKernels) {
    const AttentionCase c = some_case(kernels, 2, 2);
    AttentionProblem<TypeParam> problem(c);
    const AttentionResults clean = run_on_gpu(problem, kernels.form);
    constexpr int64_t kBad = 2;  // batch entry 1, head 0
    for (auto* x : {&problem.q, &problem.k, &problem.v, &problem.gate}) {
      const MatrixView<TypeParam> head = x->view().head(1, 0);
      for (int64_t i = 0; i < head.rows; ++i)
        head.at(i, i % head.cols) = rounded<TypeParam>(i % 2 == 0 ? kNan : kInf);
    }
    const AttentionResults spoilt = run_on_gpu(problem, kernels.form);
    for (int64_t index = 0; index < c.batch * c.heads; ++index)
      EXPECT_EQ(same_bits(head_of(spoilt, c, index), head_of(clean, c, index)), index != kBad)
          << "head " << index << " of " << describe(c);
  }
}

// What a state holds stays in its sequence, too.
TYPED_TEST(GpuRobustness, NanInOneStateLeavesTheOtherSequencesAsTheyWere) {
  for (const Kernels& kernels : kKernels) {
    if (kernels.form == Form::kBidirectional) continue;
    const CausalCase c{.tokens = some_case(kernels, 2, 1), .before = {5, 70}};
    CausalProblem<TypeParam> problem(c);
    const CausalResults clean = run_on_gpu(problem);
    constexpr int64_t kBad = 1;
    problem.sums[kBad * problem.sums.size() / 2 + 3] = kNan;
    const CausalResults spoilt = run_on_gpu(problem);
    for (int64_t s = 0; s < 2; ++s)
      EXPECT_EQ(same_bits(sequence_results(spoilt, c, s), sequence_results(clean, c, s)), s != kBad)
          << "sequence " << s << " of " << describe(c);
  }
}

// A bad number in one row of a tensor that has a row for each query, and which results it reaches:
// no other row of any. Those of keys and values sum over queries.
TYPED_TEST(GpuRobustness, WhatIsNoNumberStaysInTheRowOfItsQuery) {
  constexpr int64_t kRow = 11;
  struct Reach {
    Tensor<TypeParam> AttentionProblem<TypeParam>::*tensor;
    bool out, q, local, gate;
  };
  using Problem = AttentionProblem<TypeParam>;
  const Reach reaches[] = {{&Problem::q, true, true, false, true},
                           {&Problem::local, true, false, false, true},
                           {&Problem::gate, true, true, true, false},
                           {&Problem::out_gradient, false, true, true, true}};
  for (const Kernels& kernels : kKernels) {
    const AttentionCase c = some_case(kernels, 1, 1);
    const AttentionResults clean = run_on_gpu(Problem(c), kernels.form);
    for (const Reach& reach : reaches) {
      Problem problem(c);
      (problem.*reach.tensor).view().head(0, 0).at(kRow, 5) =
          rounded<TypeParam>(&reach - reaches < 2 ? kNan : kInf);
      const AttentionResults results = run_on_gpu(problem, kernels.form);
      auto expect_rows = [&](const char* what, auto part, bool reached) {
        EXPECT_EQ(changed_rows(results.*part, clean.*part, c.queries),
                  reached ? std::vector<int64_t>{kRow} : std::vector<int64_t>{})
            << what << " of tensor " << &reach - reaches << ", " << describe(c);
      };
      expect_rows("out", &AttentionResults::out, reach.out);
      expect_rows("the gradient of q", &AttentionResults::q, reach.q);
      expect_rows("the gradient of local", &AttentionResults::local, reach.local);
      expect_rows("the gradient of gate", &AttentionResults::gate, reach.gate);
    }
  }
}

// Keys and values beyond the count hold NaN at first; other numbers give the same bits.
TYPED_TEST(GpuRobustness, WhatIsBeyondTheCountDoesNotMatter) {
  for (const Kernels& kernels : kKernels) {
    AttentionCase c = some_case(kernels, 2, 1);
    c.lengths.key_counts = {1, 77};
    AttentionProblem<TypeParam> problem(c);
    const AttentionResults with_nan = run_on_gpu(problem, kernels.form);
    EXPECT_TRUE(all_finite(with_nan)) << describe(c);
    for (auto* x : {&problem.k, &problem.v}) {
      std::vector<double> values = x->values();
      std::replace_if(
          values.begin(), values.end(), [](double value) { return std::isnan(value); }, 30000.0);
      x->set_values(values);
    }
    EXPECT_TRUE(same_bits(run_on_gpu(problem, kernels.form), with_nan)) << describe(c);
  }
}

TYPED_TEST(GpuRobustness, EarlierCallsLeaveNothingBehind) {
  for (const Kernels& kernels : kKernels) {
    const AttentionProblem<TypeParam> problem(some_case(kernels, 1, 1));
    const AttentionResults first = run_on_gpu(problem, kernels.form);
    AttentionProblem<TypeParam> other(some_case(kernels, 1, 2));
    other.k.fill(kNan);
    run_on_gpu(other, kernels.form);
    EXPECT_TRUE(same_bits(run_on_gpu(problem, kernels.form), first)) << describe(problem.about);
  }
}

// Zeros, numbers and counts that an earlier call may have left; everywhere else it is NaN.
TYPED_TEST(GpuRobustness, WhatTheScratchHoldsDoesNotMatter) {
  for (const Kernels& kernels : kKernels) {
    const AttentionProblem<TypeParam> problem(some_case(kernels, 1, 1));
    const AttentionResults first = run_on_gpu(problem, kernels.form);
    for (const int left_behind : {0, 0x3f})
      EXPECT_TRUE(
          same_bits(run_on_gpu(problem, kernels.form, Pass::kForwardBackward, left_behind), first))
          << left_behind << " in each byte, " << describe(problem.about);
  }
}

// The weight of a single key is one, whatever the query: out is its value, and what comes back goes
// to the value alone.
TYPED_TEST(GpuRobustness, ASingleKeyIsAllThatIsSeen) {
  for (const Kernels& kernels : kKernels) {
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        AttentionCase c = case_of(kernels, rule, norm, Rope::Kind::kNone);
        c.queries = c.keys = 1;
        c.options.eps = 0;
        const AttentionProblem<TypeParam> problem(c);
        const AttentionResults results = run_on_gpu(problem, kernels.form);
        const double bound = allowed<TypeParam>(1.5, c, kernels.form);
        EXPECT_LE(max_error(results.out, problem.v.values()), bound) << describe(c);
        EXPECT_LE(max_error(results.v, problem.out_gradient.values()), bound) << describe(c);
        for (const auto* x : {&results.q, &results.k})
          EXPECT_LE(max_error(*x, std::vector<double>(x->size())), bound) << describe(c);
      }
    }
  }
}

}  // namespace
}  // namespace mala::test
