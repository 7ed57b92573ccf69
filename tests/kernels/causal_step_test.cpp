// One token at a time: causal_step after causal_step is the definition's one call for all tokens,
// for every instruction set.
#include <gtest/gtest.h>

#include "tests/support/causal_forms.h"
#include "tests/support/compare.h"
#include "tests/support/every_isa.h"
#include "tests/support/expected_of.h"
#include "tests/support/guarded.h"
#include "tests/support/threads.h"

namespace mala::test {
namespace {

class CausalStep : public IsaTest {};

// The definition's results, as far as steps have them.
template <typename T>
CausalResults expected_without_gradients(const CausalProblem<T>& problem) {
  CausalResults expected = expected_of<T>(problem);
  expected.tokens = {.out = expected.tokens.out};
  expected.before_gradient.clear();
  return expected;
}

template <typename T>
void check_steps(const CausalCase& c) {
  const CausalProblem<T> problem(well_conditioned(c));
  expect_close<T>(run_by_steps(problem), expected_without_gradients(problem), problem.about);
}

template <typename T>
void check_all_options() {
  CausalCase c = CausalCase::of(12, 16, 24);
  c.tokens.batch = 2;
  for (const AttentionOptions& options : every_option(5, 2)) {
    c.tokens.options = options;
    c.tokens.set_tail(static_cast<int>(++c.tokens.seed % 4));
    c.before = {static_cast<int64_t>(c.tokens.seed % 3), 8};
    check_steps<T>(c);
  }
}

TEST_P(CausalStep, EveryOption) { check_all_options<float>(); }
TEST_P(CausalStep, EveryOptionInDouble) { check_all_options<double>(); }
TEST_P(CausalStep, EveryOptionInBfloat16) { check_all_options<BFloat16>(); }
TEST_P(CausalStep, EveryOptionInFloat16) { check_all_options<Float16>(); }

TEST_P(CausalStep, EveryHeadSize) {
  for (int64_t dim = 8; dim <= 256; dim += 8) {
    CausalCase c = CausalCase::of(3, dim, 264 - dim);
    c.tokens.options.norm = kNorms[dim / 8 % 3];
    c.set_rope(Rope::line());
    c.before = {5};
    check_steps<float>(c);
    check_steps<BFloat16>(c);
    c.tokens.value_dim = dim;
    check_steps<float>(c);
    check_steps<double>(c);
  }
}

TEST_P(CausalStep, GroupsOfHeadsAndManyStates) {
  for (const int64_t group : {1, 2, 3, 5}) {
    for (const int64_t batch : {1, 2, 70}) {
      CausalCase c = CausalCase::of(4, 16, 8);
      c.tokens.batch = batch;
      c.tokens.heads = 2 * group;
      c.tokens.group = group;
      c.tokens.set_tail(3);
      c.set_rope(Rope::line());
      for (int64_t b = 0; b < batch; ++b) c.before.push_back(b * 11 % 40);
      check_steps<float>(c);
    }
  }
}

TEST_P(CausalStep, LayoutsAndAlignment) {
  for (const Layout in : input_layouts()) {
    for (const Layout out : output_layouts()) {
      CausalCase c = CausalCase::of(5, 24, 16);
      c.tokens.batch = c.tokens.heads = 2;
      c.tokens.set_input_layouts(in);
      c.tokens.set_output_layouts(out);
      c.tokens.misalign = 1;
      c.tokens.set_tail(3);
      c.set_rope(Rope::grid(3));
      check_steps<float>(c);
      check_steps<Float16>(c);
    }
  }
}

TEST_P(CausalStep, FarPositions) {
  for (const Norm norm : kNorms) {
    CausalCase c = CausalCase::of(5, 32, 16);
    c.tokens.options.norm = norm;
    c.before = {1'234'567};
    c.set_rope(Rope::line(1000));
    check_steps<float>(c);
  }
}

// Long enough that a mistake would add up.
TEST_P(CausalStep, AThousandTokens) {
  for (const Norm norm : kNorms) {
    CausalCase c = CausalCase::of(1000, 16, 8);
    c.tokens.options.norm = norm;
    c.set_rope(Rope::line());
    check_steps<float>(c);
  }
}

// The norm where none is given, and a state between guards that is off every alignment but its own.
TEST_P(CausalStep, WritesItsOutputsAlone) {
  CausalCase c = CausalCase::of(1, 24, 16);
  c.tokens.batch = 3;
  c.tokens.heads = 4;
  c.tokens.group = 2;
  c.tokens.set_tail(3);
  c.set_rope(Rope::line());
  c.before = {4, 0, 17};
  const CausalProblem<float> problem(c);
  const InputsCopy<float> inputs(problem.tokens);
  Tensor<float> out(problem.tokens.out_shape(), Layout::kPadded, Role::kOutput, 1);
  PoisonedMemory<double> sums(c.state_size(), 1);
  PoisonedMemory<int64_t> counts(3, 1);
  std::copy(problem.sums.begin(), problem.sums.end(), sums.span().begin());
  std::copy(c.before.begin(), c.before.end(), counts.span().begin());
  causal_step<float>(problem.tokens.inputs(), problem.tokens.options, out.view(),
                     {sums.span(), counts.span()});
  EXPECT_TRUE(out.guards_intact() && sums.guards_intact() && counts.guards_intact());
  EXPECT_TRUE(inputs.unchanged());
  const CausalResults results{{.out = out.values()},
                              {sums.span().begin(), sums.span().end()},
                              {},
                              {counts.span().begin(), counts.span().end()}};
  expect_close<float>(results, expected_without_gradients(problem), c);
}

TEST_P(CausalStep, SameBitsForAnyThreadsRunAfterRun) {
  for (const int64_t batch : {1, 3, 66}) {
    CausalCase c = CausalCase::of(6, 64, 40);
    c.tokens.batch = batch;
    c.tokens.heads = 4;
    c.tokens.group = 2;
    c.set_rope(Rope::line());
    c.before.assign(batch, 9);
    const CausalProblem<float> problem(c);
    const CausalResults first = run_by_steps(problem);
    for (const int64_t threads : {1, 2, 3, 5}) {
      const ThreadCount scope(threads);
      EXPECT_TRUE(same_bits(run_by_steps(problem), first)) << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, CausalStep, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
