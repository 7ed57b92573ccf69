// States of the causal form on the GPU: what a text begins with and leaves, and what becomes of it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "mala/kernels/cuda/check.h"
#include "tests/kernels/cuda_causal_cases.h"

namespace mala::test {
namespace {

class GpuCausalStates : public GpuCausalTest {};

// The state after a text, by the chain of its teams or, where it is several parts, by their sums.
// It changes no bit of the output.
TEST_F(GpuCausalStates, TextsLeaveTheirState) {
  const int count = static_cast<int>(gpu::devices().size());
  for (const auto& [device, tokens] : kTexts) {
    MALA_CUDA_CHECK(cudaSetDevice(device % count));
    CausalCase c = usual_case(tokens);
    if (tokens % 1000 >= 500) c.set_rope(Rope::none());
    const CausalProblem<BFloat16> alone(well_conditioned(c));
    c.after = true;
    const CausalProblem<BFloat16> problem(well_conditioned(c));
    const CausalResults actual = run_on_gpu(problem, Pass::kForward);
    expect_gpu_close<BFloat16>(actual, run_reference(problem, Pass::kForward), problem.about);
    EXPECT_EQ(actual.tokens.out, run_on_gpu(alone, Pass::kForward).tokens.out);
  }
}

// Heads that share keys have one state, and each sequence has its own.
TEST_F(GpuCausalStates, SequencesAndGroupsLeaveTheirStates) {
  CausalCase groups = usual_case(150);
  groups.tokens.batch = 2;
  groups.tokens.heads = 6;
  groups.tokens.group = 3;
  CausalCase counts = usual_case(200);
  counts.tokens.batch = 3;
  counts.tokens.lengths.key_counts = {40, 64, 200};
  CausalCase packed = usual_case(0);
  packed.pack({1, 64, 130});
  for (CausalCase c : {groups, counts, packed}) {
    c.after = true;
    for (int device = 0; device < 3; ++device) check(c);
  }
}

TEST_F(GpuCausalStates, StatesBeforeAndAfter) {
  for (const int64_t tokens : {1, 64, 150, 300}) {
    CausalCase c = usual_case(tokens);
    c.tokens.batch = 2;
    c.before = {0, 77};
    c.after = c.before_gradient = true;
    check(c);
    c.set_rope(Rope::none());
    c.before = {1000, 3};
    check(c);
  }
}

// The state after may take the place of that before, in any order of blocks: heads by warpgroups
// and by the kernels for all, in one part and in several.
TEST_F(GpuCausalStates, AStateInItsPlace) {
  for (const int64_t dim : {64, 96}) {
    for (const int64_t tokens : {1, 64, 400}) {
      CausalCase c = CausalCase::of(tokens, dim, dim);
      c.set_rope(Rope::line());
      c.before = {500};
      const CausalProblem<BFloat16> problem(c);
      use_next_device();
      const CausalResults apart = run_on_gpu(problem, Pass::kForward);
      const CausalResults in_place = run_in_place_on_gpu(problem);
      SCOPED_TRACE(str("heads of ", dim, ", ", tokens, " tokens"));
      EXPECT_EQ(in_place.tokens.out, apart.tokens.out);
      EXPECT_EQ(in_place.after, apart.after);
    }
  }
}

// A state of zeros with counts of zero stands for the beginning, as none does.
TEST_F(GpuCausalStates, AStateOfNothing) {
  for (const Rope& rope : {Rope::line(), Rope::none()}) {
    CausalCase c = usual_case(200);
    c.set_rope(rope);
    c.tokens.batch = 2;
    c.after = true;
    const CausalResults expected = run_on_gpu(CausalProblem<BFloat16>(c), Pass::kForward);
    c.before = {0, 0};
    const CausalResults actual = run_on_gpu(CausalProblem<BFloat16>(c), Pass::kForward);
    EXPECT_EQ(actual.tokens.out, expected.tokens.out);
    EXPECT_EQ(actual.after, expected.after);
    EXPECT_EQ(actual.counts, expected.counts);
  }
}

// Of a state it spoils what the definition says, or all that keys have to do with.
TEST_F(GpuCausalStates, WhatIsNoNumberSpoilsTheState) {
  constexpr size_t kKeys = 64 * 64, kValues = kKeys + 2 * 64;  // where these begin
  for (const int64_t at : {0, 70, 199}) {
    for (const bool of_value : {false, true}) {
      CausalCase c = usual_case(200);
      if (at == 70) c.set_rope(Rope::none());
      c.after = true;
      CausalProblem<BFloat16> problem(c);
      auto& tensor = of_value ? problem.tokens.v : problem.tokens.k;
      tensor.view().head(0, 0).at(at, 5) =
          rounded<BFloat16>(std::numeric_limits<double>::quiet_NaN());
      use_next_device();
      const std::vector<double> actual = run_on_gpu(problem, Pass::kForward).after;
      const std::vector<double> expected = run_reference(problem, Pass::kForward).after;
      for (size_t i = of_value ? 0 : kValues; i < expected.size(); ++i) {
        ASSERT_EQ(std::isfinite(actual[i]), std::isfinite(expected[i]))
            << i << " with token " << at;
      }
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(std::isfinite(expected[i]) || !std::isfinite(actual[i])) << i;
      }
    }
  }
}

// The sums of keys before and after they turn are two, also where nothing turns, and so are their
// gradients.
TEST_F(GpuCausalStates, AStateOfTurnedKeysInACallWithoutTurns) {
  for (const auto& [dim, group, norm] : {std::tuple{64, 1, Norm::kPublished},
                                         {96, 1, Norm::kPublished},
                                         {96, 3, Norm::kBalanced},
                                         {160, 1, Norm::kPrinted},
                                         {64, 3, Norm::kPublished}}) {
    CausalCase c = CausalCase::of(130, dim, dim);
    c.tokens.heads = c.tokens.group = group;
    c.tokens.options.norm = norm;
    c.before = {500};
    c.after = false;
    CausalProblem<BFloat16> problem(c);
    const int keys = dim * dim;  // where plain ones begin
    for (int i = keys; i < keys + dim; ++i) problem.sums[static_cast<size_t>(i)] *= 1.25;
    const CausalResults actual = run_on_gpu(problem), expected = run_reference(problem);
    SCOPED_TRACE(str(group, " heads of ", dim));
    constexpr double kMost = 0x1p-8;  // twice what rounding leaves of bfloat16 at most
    EXPECT_LE(relative_rms(actual.tokens.out, expected.tokens.out), kMost);
    EXPECT_LE(relative_rms(actual.tokens.q, expected.tokens.q), kMost);
    EXPECT_LE(relative_rms(actual.tokens.k, expected.tokens.k), kMost);
    EXPECT_LE(relative_rms(actual.tokens.v, expected.tokens.v), kMost);
    EXPECT_LE(relative_rms(actual.before_gradient, expected.before_gradient), kMost);
  }
}

}  // namespace
}  // namespace mala::test
