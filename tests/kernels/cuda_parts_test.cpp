// How heads fall apart on a device: no GPU is needed to tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mala/kernels/cuda/parts.h"
#include "mala/kernels/cuda/plan.h"
#include "mala/kernels/cuda/shape.h"
#include "tests/kernels/cuda_plan_cases.h"

namespace mala::gpu {
namespace {

TEST(Parts, ClustersDivideThemAndSumsStayShort) {
  for (const int64_t heads : {1, 2, 3, 15, 32, 64, 100, 131, 132, 133, 528, 1536}) {
    for (const int64_t tiles : {1, 2, 13, 49, 256, 1024, 100'000}) {
      for (const int64_t teams : {1, 2, 4}) {
        const HopperSide side{heads, tiles, teams, true};
        const HopperParts of = hopper_parts(side, some_device(), 1);
        EXPECT_EQ(of.parts % of.cluster, 0);
        const int64_t tokens = hopper_part_tokens(side, of.parts);
        EXPECT_EQ(tokens % kHopperTile, 0);
        EXPECT_GE(tokens * of.parts, tiles * kHopperTile);
        EXPECT_LE(divide_up(tokens, teams), kMostPartTokens);
      }
    }
  }
}

// Thirty clusters of four fit at once, so that 32 heads are better off with clusters of two.
TEST(Parts, NoClusterWaitsForAnother) {
  const HopperParts of = hopper_parts({32, 256, 2, true}, some_device(), 1);
  EXPECT_EQ(of.parts, 4);
  EXPECT_EQ(of.cluster, 2);
  const HopperParts two = hopper_parts({64, 49, 4, true}, some_device(), 1);
  EXPECT_EQ(two.parts, 2);
  EXPECT_EQ(two.cluster, 2);
}

TEST(Parts, WithoutSumsThereIsNothingToAdd) {
  EXPECT_EQ(hopper_parts({3, 1000, 4, false}, some_device(), 1).cluster, 1);
}

// One head of many tokens fills the device.
TEST(Parts, AreAsManyAsTheDeviceHolds) {
  const HopperParts of = hopper_parts({1, 1024, 4, true}, some_device(), 1);
  EXPECT_GE(of.parts, 104);
  EXPECT_LE(of.parts, 132);
}

// What is asked for is what is needed: a plan without scratch is the same as one with it.
TEST(Plans, ScratchIsAsLargeAsWasSaid) {
  const std::vector<int64_t> counts = {1000};
  for (const int64_t dim : {64, 96, 128}) {
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      for (const bool has_counts : {false, true}) {
        AttentionInputs<BFloat16> inputs = some_inputs(1, 1000, dim);
        if (has_counts) inputs.lengths.key_counts = counts;
        AttentionOptions options;
        options.q_rope = options.k_rope = Rope::grid(25);
        const int64_t bytes =
            Plan<BFloat16>(inputs, options, direction, some_device(), {}).scratch_bytes;
        std::vector<std::byte> scratch(static_cast<size_t>(bytes));
        const Plan<BFloat16> plan(inputs, options, direction, some_device(), scratch);
        EXPECT_EQ(plan.scratch_bytes, bytes) << dim << " with counts " << has_counts;
      }
    }
  }
}

// One kernel for heads that fill the device, and for those with a tile for each team of a block or
// of a cluster. In the backward blocks have half as many teams.
TEST(Plans, WholeHeads) {
  struct Case {
    int64_t heads, tokens;
    bool whole;
    int blocks;
    Direction direction = Direction::kForward;
  };
  constexpr Direction kBack = Direction::kBackward;
  const Case cases[] = {{1, 8, true, 1},
                        {2, 256, true, 1},
                        {2, 257, true, 2},
                        {2, 1024, true, 4},
                        {15, 2048, true, 8},
                        {2, 2049, false, 0},
                        {64, 3136, true, 2},
                        {1, 65536, false, 0},
                        {1536, 256, true, 1},
                        {128, 784, true, 1},
                        {2, 128, true, 1, kBack},
                        {2, 129, true, 2, kBack},
                        {15, 1024, true, 8, kBack},
                        {2, 1025, false, 0, kBack},
                        {64, 3136, true, 2, kBack},
                        {1536, 256, true, 1, kBack}};
  for (const Case& c : cases) {
    const Plan<BFloat16> plan(some_inputs(c.heads, c.tokens, 64), {}, c.direction, some_device(),
                              {});
    EXPECT_EQ(plan.has_whole_heads, c.whole) << c.heads << " heads of " << c.tokens;
    EXPECT_EQ(c.whole ? plan.query_cluster : 0, c.blocks) << c.heads << " heads of " << c.tokens;
  }
}

// One kernel too where heads are few and long: all of its blocks run at once, each has tokens, and
// none more than its teams may sum.
TEST(Plans, SpreadHeads) {
  struct Case {
    int64_t heads, tokens;
    bool spread;
    Direction direction = Direction::kForward;
  };
  const Case cases[] = {{2, 2048, false},
                        {2, 2049, true},
                        {2, 16384, true},
                        {40, 4096, true},
                        {67, 4096, false},
                        {1, 65536, true},
                        {66, 2100, false},
                        {45, 2100, true},
                        {1, 132 * 4 * kMostPartTokens, true},
                        {1, 132 * 4 * kMostPartTokens + 1, false},
                        {2, 1024, false, Direction::kBackward},
                        {2, 1025, true, Direction::kBackward},
                        {1, 132 * 2 * kMostPartTokens, true, Direction::kBackward},
                        {1, 132 * 2 * kMostPartTokens + 1, false, Direction::kBackward}};
  for (const Case& c : cases) {
    SCOPED_TRACE(str(c.heads, " heads of ", c.tokens));
    const Plan<BFloat16> plan(some_inputs(c.heads, c.tokens, 64), {}, c.direction, some_device(),
                              {});
    EXPECT_EQ(plan.has_spread_heads, c.spread);
    if (!plan.has_spread_heads) continue;
    const PassGrid grid = plan.spread_grid();
    EXPECT_LE(grid.heads * grid.parts, some_device().multiprocessors);
    EXPECT_GT(grid.parts, 1);
    EXPECT_LT((grid.parts - 1) * plan.call.k_part_tokens, c.tokens);
    EXPECT_GE(grid.parts * plan.call.k_part_tokens, c.tokens);
    const int teams = c.direction == Direction::kForward ? kWholeTeams : kWholeTeamsOfGradients;
    EXPECT_LE(plan.call.k_part_tokens, teams * kMostPartTokens);
  }
}

// The side with more parts says how many blocks there are.
TEST(Plans, SpreadHeadsOfTwoLengths) {
  AttentionInputs<BFloat16> inputs = some_inputs(2, 2100, 64);
  inputs.q.tokens = 40;
  const Plan<BFloat16> plan(inputs, {}, Direction::kForward, some_device(), {});
  ASSERT_TRUE(plan.has_spread_heads);
  EXPECT_EQ(plan.spread_grid().parts, 9);
  EXPECT_EQ(plan.most_query_parts, 1);
}

// Blocks wait for each other only where all of them run at once, and rows are fit for vectors.
TEST(Plans, HeadsAreSpreadWhereBlocksRunTogether) {
  const AttentionInputs<BFloat16> inputs = some_inputs(1, 65536, 64);
  DeviceFacts device = some_device();
  Plan<BFloat16> plan(inputs, {}, Direction::kForward, device, {});
  ASSERT_TRUE(plan.has_spread_heads);
  HeadsView<BFloat16> out = dense_heads(static_cast<BFloat16*>(nullptr), 1, 1, 65536, 64);
  plan.set_tensors(out);
  EXPECT_FALSE(plan.has_spread_heads);
  device.runs_together = false;
  EXPECT_FALSE(Plan<BFloat16>(inputs, {}, Direction::kForward, device, {}).has_spread_heads);
}

// Whichever side is the longer, teams sum no more tokens than tensor cores should: keys in the
// forward, queries in the backward.
TEST(Plans, TeamsOfOneKernelDoNotSumTooMuch) {
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    const bool forward = direction == Direction::kForward;
    for (const auto& [heads, summed, other] :
         {std::tuple{300, 65536, 256}, {1, 4194304, 2100}, {300, 256, 65536}, {1, 2100, 4194304}}) {
      AttentionInputs<BFloat16> inputs = some_inputs(heads, summed, 64);
      (forward ? inputs.q : inputs.k).tokens = other;
      if (!forward) inputs.v.tokens = other;
      const Plan<BFloat16> plan(inputs, {}, direction, some_device(), {});
      const int64_t part = forward ? plan.call.k_part_tokens : plan.call.q_part_tokens;
      const int teams = forward ? kWholeTeams : kWholeTeamsOfGradients;
      const bool one_kernel = plan.has_whole_heads || plan.has_spread_heads;
      EXPECT_EQ(one_kernel, summed < other) << heads << " heads, " << summed << " summed";
      EXPECT_LE(part, teams * kMostPartTokens) << heads << " heads, " << summed << " summed";
    }
  }
}

// A tensor that is not fit for the one kernel leaves the other passes where they were.
TEST(Plans, GradientsThatAreNotFitAreFoundByTwoKernels) {
  const AttentionInputs<BFloat16> inputs = some_inputs(4, 200, 64);
  Plan<BFloat16> plan(inputs, {}, Direction::kBackward, some_device(), {});
  ASSERT_TRUE(plan.has_whole_heads);
  const HeadsView<BFloat16> fit = dense_heads(const_cast<BFloat16*>(inputs.q.data), int64_t{4},
                                              int64_t{1}, int64_t{200}, int64_t{64});
  HeadsView<BFloat16> odd = fit;
  odd.data += 1;
  plan.set_tensors(HeadsView<const BFloat16>(fit), {fit, fit, odd, {}, {}});
  EXPECT_FALSE(plan.has_whole_heads);
  EXPECT_GT(plan.query_cluster, 0);
  EXPECT_EQ(plan.key_cluster, 0);
}

// One place for turns serves both passes that are one kernel, and both kernels, should they be two.
TEST(Plans, TurnsOfWholeGradientsFit) {
  for (const int64_t heads : {2, 300}) {
    for (const int64_t width : {20, 50, 60, 140, 200, 300}) {
      AttentionOptions options;
      options.q_rope = options.k_rope = Rope::grid(width);
      const Plan<BFloat16> plan(some_inputs(heads, width * 2, 64), options, Direction::kBackward,
                                some_device(), {});
      ASSERT_TRUE(plan.has_whole_heads);
      const int64_t bytes = width * near_pitch(16) * static_cast<int64_t>(sizeof(Turn));
      const bool near = bytes <= near_bytes_of_keys(64, heads == 300 ? 1 : 0);
      EXPECT_EQ(plan.call.k_turning.near, near) << heads << " heads, width " << width;
      EXPECT_EQ(plan.call.q_turning.near, near) << heads << " heads, width " << width;
    }
  }
}

// The pass over queries that finds the gradient of a gate has less room for turns than the other.
TEST(Plans, TurnsOfAGateFit) {
  for (const int64_t width : {200, 230, 300}) {
    AttentionInputs<BFloat16> inputs = some_inputs(1, width * width, 64);
    AttentionOptions options;
    options.q_rope = options.k_rope = Rope::grid(width);
    const int64_t bytes = width * near_pitch(16) * static_cast<int64_t>(sizeof(Turn));
    for (const bool has_gate : {false, true}) {
      if (has_gate) inputs.gate = inputs.q;
      const Plan<BFloat16> plan(inputs, options, Direction::kBackward, some_device(), {});
      ASSERT_GT(plan.query_cluster, 0);
      EXPECT_EQ(plan.call.q_turning.near,
                bytes <= (has_gate ? near_bytes_forward(64) : kNearBytesOfQueries))
          << width << (has_gate ? " with a gate" : "");
    }
  }
}

// Rows that vectors cannot walk over are for the kernels for all.
TEST(Plans, UnfitGradientsAreNotForWarpgroups) {
  const AttentionInputs<BFloat16> inputs = some_inputs(1, 700, 64);
  AttentionOptions options;
  options.q_rope = options.k_rope = Rope::line();
  alignas(16) static BFloat16 nothing[2];
  const HeadsView<BFloat16> fit = dense_heads(nothing, 1, 1, 700, 64);
  HeadsView<BFloat16> unfit = fit;
  unfit.data = nothing + 1;
  for (const bool causal : {false, true}) {
    for (int which = 0; which < 6; ++which) {
      Plan<BFloat16> plan(inputs, options, Direction::kBackward, some_device(), {},
                          {.causal = causal});
      ASSERT_GT(plan.query_cluster, 0);
      ASSERT_GT(plan.key_cluster, 0);
      auto of = [&](int i) { return which == i ? unfit : fit; };
      plan.set_tensors(of(0), {of(1), of(2), of(3), of(4), of(5)});
      const bool of_keys = which == 2 || which == 3;
      EXPECT_EQ(plan.query_cluster > 0, !causal && of_keys) << which;
      EXPECT_EQ(plan.key_cluster > 0, causal || !of_keys) << which;
    }
  }
}

TEST(Plans, HeadsAreAsManyAsAGpuCounts) {
  AttentionInputs<BFloat16> inputs = some_inputs(2, 1, 64);
  inputs.q.heads = inputs.k.heads = inputs.v.heads = int64_t{1} << 30;
  for (const bool causal : {false, true}) {
    EXPECT_EQ(refusal_of(inputs, {.causal = causal}),
              "[attention] 2 sequences of 1073741824 heads are more than a GPU counts, 2147483647; "
              "split the batch");
  }
}

// A width that nobody has is no number of rows.
TEST(Plans, EndlessRowsAreNotNear) {
  AttentionOptions options;
  options.q_rope = options.k_rope = Rope::grid(INT64_MAX);
  const Plan<BFloat16> plan(some_inputs(1, 100, 64), options, Direction::kForward, some_device(),
                            {});
  EXPECT_FALSE(plan.call.k_turning.near);
}

}  // namespace
}  // namespace mala::gpu
