// The causal kernels of the GPU against the definition: sizes around tiles, options, lengths,
// groups of heads, and numbers that are none.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "mala/kernels/cuda/check.h"
#include "mala/kernels/cuda/step.h"
#include "tests/kernels/cuda_attention_run.h"
#include "tests/kernels/cuda_causal_cases.h"

namespace mala::test {
namespace {

class GpuCausal : public GpuCausalTest {};

TEST_F(GpuCausal, TokenCountsAroundTiles) {
  for (const int64_t tokens : {1, 63, 64, 65, 200, 300}) {
    CausalCase c = usual_case(tokens);
    check(c);
    c.set_rope(Rope::none());
    check(c);
  }
}

TEST_F(GpuCausal, TilesGoRoundClustersOfEverySize) {
  const int count = static_cast<int>(gpu::devices().size());
  for (const auto& [device, tokens] : kTexts) {
    MALA_CUDA_CHECK(cudaSetDevice(device % count));
    const CausalProblem<BFloat16> problem(well_conditioned(usual_case(tokens)));
    expect_gpu_close<BFloat16>(run_on_gpu(problem, Pass::kForward),
                               run_reference(problem, Pass::kForward), problem.about);
  }
}

// Sums go from tile to tile in the same order, however many teams there are.
TEST_F(GpuCausal, ClustersOfEverySizeHaveTheSameBits) {
  if (gpu::devices().size() == 1) GTEST_SKIP() << "one GPU has one size of clusters for a text";
  const CausalProblem<BFloat16> problem(usual_case(1000));
  const std::vector<double> expected = run_on_gpu(problem, Pass::kForward).tokens.out;
  for (size_t device = 1; device < gpu::devices().size(); ++device) {
    MALA_CUDA_CHECK(cudaSetDevice(static_cast<int>(device)));
    EXPECT_EQ(run_on_gpu(problem, Pass::kForward).tokens.out, expected) << "device " << device;
  }
}

TEST_F(GpuCausal, EveryRuleAndNorm) {
  for (const Rule rule : kRules) {
    for (const Norm norm : kNorms) {
      CausalCase c = usual_case(200);
      c.tokens.options = options_of(rule, norm);
      check(c);
      c.set_rope(Rope::line(1000));
      c.tokens.options.key_mean = false;
      check(c);
    }
  }
}

// What warpgroups do not know goes to the kernels for all.
TEST_F(GpuCausal, OtherHeadsFeaturesAndRotations) {
  for (const int64_t dim : {8, 32, 96, 128}) {
    CausalCase c = usual_case(130);
    c.tokens.dim = dim;
    c.tokens.value_dim = 136 - dim;
    check(c);
  }
  for (const Feature feature : kFeatures) {
    for (const Rope::Kind kind : {Rope::Kind::kGrid, Rope::Kind::kLine}) {
      CausalCase c = usual_case(70);
      c.tokens.options.feature = feature;
      c.set_rope(some_rope(kind, 3));
      check(c);
    }
  }
}

// Tables of turns that fill the place that sums of heads of 96 have for them, where not all lanes
// have features: compute-sanitizer sees who reads beyond.
TEST_F(GpuCausal, TurnsThatFillTheirPlace) {
  CausalCase c = CausalCase::of(484, 96, 96);
  c.set_rope(Rope::grid(22));
  check(c);
}

TEST_F(GpuCausal, KeyCountsAndPackedSequences) {
  CausalCase c = usual_case(200);
  c.tokens.batch = 3;
  c.tokens.lengths.key_counts = {40, 77, 200};
  check(c);
  c.after = true;
  c.before = {5, 0, 9};
  check(c);
  CausalCase packed = usual_case(0);
  packed.pack({1, 65, 130});
  check(packed);
}

TEST_F(GpuCausal, GroupsOfHeadsAndTails) {
  for (const int64_t group : {1, 2, 3}) {
    for (const int tail : {0, 1, 2, 3}) {
      CausalCase c = usual_case(group == 3 ? 65 : 150);
      c.tokens.heads = 2 * group;
      c.tokens.group = group;
      c.tokens.set_tail(tail);
      check(c);
    }
  }
}

TEST_F(GpuCausal, LayoutsAndAlignment) {
  for (const Layout layout : {Layout::kTokensFirst, Layout::kPacked, Layout::kReversed}) {
    CausalCase c = usual_case(100);
    c.tokens.heads = 2;
    c.tokens.set_input_layouts(layout);
    c.tokens.set_output_layouts(layout);
    check(c);
    c.tokens.misalign = 1;
    check(c);
  }
}

// Which tokens of a head have nothing but numbers.
std::vector<bool> tokens_of_numbers(const std::vector<double>& values, int64_t dim) {
  std::vector<bool> all(values.size() / static_cast<size_t>(dim), true);
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) all[i / static_cast<size_t>(dim)] = false;
  return all;
}

// A key or value that is no number spoils what comes after it, and nothing before. The kernels for
// all, which take rows of any alignment, keep to that for outputs alone: gradients of queries in
// the same tile are spoiled too.
TEST_F(GpuCausal, WhatIsNoNumberStaysBehind) {
  constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()};
  for (const int64_t at : {0, 70, 127, 199}) {
    for (const int64_t misalign : {0, 1}) {
      CausalCase c = usual_case(200);
      c.tokens.misalign = misalign;
      CausalProblem<BFloat16> problem(c);
      const double bad = kBad[at % 2];
      problem.tokens.k.view().head(0, 0).at(at, 3) = rounded<BFloat16>(bad);
      problem.tokens.v.view().head(0, 0).at(at, 5) = rounded<BFloat16>(bad);
      use_next_device();
      const AttentionResults actual = run_on_gpu(problem).tokens;
      const AttentionResults expected = run_reference(problem).tokens;
      EXPECT_EQ(tokens_of_numbers(actual.out, 64), tokens_of_numbers(expected.out, 64))
          << bad << " at token " << at;
      if (misalign > 0) continue;
      EXPECT_EQ(tokens_of_numbers(actual.q, 64), tokens_of_numbers(expected.q, 64))
          << bad << " at token " << at;
    }
  }
}

// Gradients of the same tokens are numbers, of a case with one head of 64.
void expect_same_numbers(const AttentionResults& actual, const AttentionResults& expected) {
  EXPECT_EQ(tokens_of_numbers(actual.q, 64), tokens_of_numbers(expected.q, 64));
  EXPECT_EQ(tokens_of_numbers(actual.k, 64), tokens_of_numbers(expected.k, 64));
  EXPECT_EQ(tokens_of_numbers(actual.v, 64), tokens_of_numbers(expected.v, 64));
}

// What a value that is no number spoils of gradients is what the definition says: gradients of
// values do not depend on values.
TEST_F(GpuCausal, AValueThatIsNoNumberSpoilsNoGradientOfValues) {
  for (const int64_t at : {0, 70, 127}) {
    CausalProblem<BFloat16> problem(usual_case(200));
    problem.tokens.v.view().head(0, 0).at(at, 5) =
        rounded<BFloat16>(std::numeric_limits<double>::quiet_NaN());
    use_next_device();
    const AttentionResults actual = run_on_gpu(problem).tokens;
    const AttentionResults expected = run_reference(problem).tokens;
    SCOPED_TRACE(str("token ", at));
    expect_same_numbers(actual, expected);
  }
}

// Nor does it spoil the gradient of a gate before it, with parts of keys that are fewer than those
// of queries, and whatever the gradient of the gate has to wait for.
TEST_F(GpuCausal, WhatIsNoNumberStaysBehindInTheGradientOfAGate) {
  for (const int tail : {2, 3}) {
    for (const int64_t at : {70, 127}) {
      CausalCase c = usual_case(200);
      c.tokens.batch = 2;
      c.tokens.lengths.key_counts = {40, 200};
      c.tokens.set_tail(tail);
      CausalProblem<BFloat16> problem(c);
      problem.tokens.v.view().head(1, 0).at(at, 5) =
          rounded<BFloat16>(std::numeric_limits<double>::quiet_NaN());
      use_next_device();
      const AttentionResults actual = run_on_gpu(problem).tokens;
      const AttentionResults expected = run_reference(problem).tokens;
      EXPECT_EQ(tokens_of_numbers(actual.gate, 64), tokens_of_numbers(expected.gate, 64))
          << "tail " << tail << ", token " << at;
    }
  }
}

// The same the other way round: a query, or what comes back for it, spoils gradients of keys up to
// its own, and none after them.
TEST_F(GpuCausal, NoKeyHearsOfThePast) {
  for (const int64_t at : {0, 70, 127, 199}) {
    for (const bool of_query : {false, true}) {
      CausalProblem<BFloat16> problem(usual_case(200));
      auto& tensor = of_query ? problem.tokens.q : problem.tokens.out_gradient;
      tensor.view().head(0, 0).at(at, 5) =
          rounded<BFloat16>(std::numeric_limits<double>::quiet_NaN());
      use_next_device();
      const AttentionResults actual = run_on_gpu(problem).tokens;
      const AttentionResults expected = run_reference(problem).tokens;
      SCOPED_TRACE(str("token ", at));
      expect_same_numbers(actual, expected);
      for (size_t i = 0; i < actual.v.size(); ++i) {  // columns that hear of nothing are right
        if (!std::isfinite(expected.v[i])) continue;
        EXPECT_NEAR(actual.v[i], expected.v[i], 0.01) << i << " with token " << at;
      }
    }
  }
}

// One token at a time, from the beginning and with a text before.
TEST_F(GpuCausal, StepByStep) {
  for (const int64_t dim : {64, 40, 256}) {
    CausalCase c = CausalCase::of(3, dim, dim == 40 ? 24 : dim);
    c.tokens.batch = 2;
    c.tokens.heads = 4;
    c.tokens.group = dim == 256 ? 1 : 2;
    c.tokens.set_tail(dim == 64 ? 0 : 3);
    c.set_rope(dim == 64 ? Rope::line() : Rope::grid(5));
    use_next_device();
    check_steps_on_gpu(c);
    c.before = {0, 77};
    check_steps_on_gpu(c);
  }
}

// A grid without blocks is refused by every device, and the next call is not disturbed.
TEST_F(GpuCausal, AFailedLaunchTellsShapeAndDevice) {
  gpu::Launcher on(nullptr, HeadsView<float>{nullptr, 2, 3, 70, 64});
  try {
    gpu::launch_step(on, gpu::StepCall<BFloat16>({}, {}, {}, {}));
    ADD_FAILURE() << "nothing was launched";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.ends_with("; that was on GPU 0, for tokens of shape (2, 3, 70, 64)")) << text;
  }
  check(usual_case(1));
}

// Nor does a number that changes later change a bit of what came before, in whichever tile: what
// values are taken about is known to all tokens of the tile.
TEST_F(GpuCausal, TheFutureChangesNoBitOfThePast) {
  for (const int64_t dim : {64, 96}) {
    for (const int64_t past : {1, 40, 100}) {
      CausalCase c = usual_case(200);
      c.tokens.dim = c.tokens.value_dim = dim;
      CausalProblem<BFloat16> problem(c);
      use_next_device();
      AttentionResults before = run_on_gpu(problem).tokens;
      for (int64_t i = past * dim; i < 200 * dim; ++i) {
        BFloat16& x = problem.tokens.v.view().head(0, 0).at(i / dim, i % dim);
        x = rounded<BFloat16>(1000 - to_float(x));
      }
      AttentionResults after = run_on_gpu(problem).tokens;
      for (auto* part : {&before.out, &before.q, &after.out, &after.q}) {
        part->resize(static_cast<size_t>(past * dim));
      }
      EXPECT_EQ(before.out, after.out) << past << " tokens, heads of " << dim;
      EXPECT_EQ(before.q, after.q) << past << " tokens, heads of " << dim;
    }
  }
}

// Minus infinity is no such number: its feature is zero.
TEST_F(GpuCausal, AQueryOfMinusInfinityIsANumber) {
  for (const int64_t tokens : {60, 200}) {
    CausalProblem<BFloat16> problem(usual_case(tokens));
    problem.tokens.q.view().head(0, 0).at(30, 3) =
        rounded<BFloat16>(-std::numeric_limits<double>::infinity());
    use_next_device();
    const AttentionResults actual = run_on_gpu(problem).tokens;
    const AttentionResults expected = run_reference(problem).tokens;
    SCOPED_TRACE(str(tokens, " tokens"));
    expect_same_numbers(actual, expected);
  }
}

// Features and slopes of far negative numbers are tiny, and lose no digits by it.
TEST_F(GpuCausal, FarNegativeQueriesAndKeys) {
  for (const double shift : {-15.0, -25.0}) {
    CausalProblem<BFloat16> problem(usual_case(200));
    for (int64_t i = 0; i < 200 * 64; ++i) {
      for (auto* side : {&problem.tokens.q, &problem.tokens.k}) {
        BFloat16& x = side->view().head(0, 0).at(i / 64, i % 64);
        x = rounded<BFloat16>(to_float(x) + shift);
      }
    }
    use_next_device();
    const AttentionResults actual = run_on_gpu(problem).tokens;
    const AttentionResults expected = run_reference(problem).tokens;
    constexpr double kMost = 0x1p-8;  // twice what rounding leaves of bfloat16 at most
    EXPECT_LE(relative_rms(actual.out, expected.out), kMost) << shift;
    EXPECT_LE(relative_rms(actual.q, expected.q), kMost) << shift;
    EXPECT_LE(relative_rms(actual.k, expected.k), kMost) << shift;
    EXPECT_LE(relative_rms(actual.v, expected.v), kMost) << shift;
  }
}

}  // namespace
}  // namespace mala::test
