// How heads fall apart on a device: no GPU is needed to tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mala/core/error.h"
#include "mala/kernels/cuda/parts.h"
#include "mala/kernels/cuda/plan.h"
#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {
namespace {

// As an H200 says of itself.
DeviceFacts some_device() {
  DeviceFacts device;
  device.multiprocessors = 132;
  device.has_wgmma = device.runs_together = true;
  const int blocks[] = {132, 132, 120, 120};
  std::copy(std::begin(blocks), std::end(blocks), device.cluster_blocks);
  return device;
}

// Of so few multiprocessors that any of them may be a cluster.
DeviceFacts small_device(int multiprocessors) {
  DeviceFacts device = some_device();
  device.multiprocessors = multiprocessors;
  for (int i = 0; i < DeviceFacts::kClusters; ++i) {
    device.cluster_blocks[i] = multiprocessors >> i << i;
  }
  return device;
}

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

// Tensors that nobody looks into, of rows that are fit for vectors.
AttentionInputs<BFloat16> some_inputs(int64_t batch, int64_t tokens, int64_t dim) {
  alignas(16) static BFloat16 nothing[1];
  const HeadsView<BFloat16> view = dense_heads(nothing, batch, int64_t{1}, tokens, dim);
  return {view, view, view, {}, {}};
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

// The kernel that sums keys of a causal call has room for few turns, whichever way the call goes.
TEST(Plans, TurnsOfCausalSumsFit) {
  for (const int dim : {64, 96, 128}) {
    for (const int64_t width : {20, 40, 60, 100, 140}) {
      AttentionOptions options;
      options.q_rope = options.k_rope = Rope::grid(width);
      for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
        const Plan<BFloat16> plan(some_inputs(1, width * width, dim), options, direction,
                                  some_device(), {}, {.causal = true});
        const int64_t bytes = width * near_pitch(dim / 4) * static_cast<int64_t>(sizeof(Turn));
        EXPECT_EQ(plan.call.k_turning.near, bytes <= near_bytes_forward(dim, 1))
            << "width " << width << ", heads of " << dim;
      }
    }
  }
}

// Parts of whole tiles, none longer than sums may be.
TEST(Parts, SweepsFillTheDeviceOnce) {
  EXPECT_EQ(sweep_part_tokens(64, 128, 264), 32 * kHopperTile);
  EXPECT_EQ(sweep_part_tokens(16, 128, 264), 8 * kHopperTile);
  EXPECT_EQ(sweep_part_tokens(1, 1, 264), kHopperTile);
  for (const int64_t heads : {1, 3, 64, 1000}) {
    for (const int64_t tiles : {1, 2, 13, 128, 1024, 100'000}) {
      const int64_t tokens = sweep_part_tokens(heads, tiles, 264);
      EXPECT_EQ(tokens % kHopperTile, 0);
      EXPECT_LE(tokens, std::max(kMostPartTokens, divide_up(tiles, kMostParts) * kHopperTile));
    }
  }
}

// Many heads are a part each, few fall into several; clusters where these fit at once. What is
// summed before divides what is swept.
TEST(Parts, CausalForwardsGoOverATextOnceWhereTheyCan) {
  constexpr int kTeams = 3;
  constexpr int64_t kMostSwept = int64_t{1'100'000};  // sums in float32 go no further
  auto parts = [](int64_t heads, int64_t tiles, const DeviceFacts& device) {
    const ForwardParts of = causal_forward_parts(heads, tiles, device, kTeams);
    return std::pair{divide_up(tiles * kHopperTile, of.tokens), of.blocks};
  };
  auto each = [](int64_t count, int blocks) { return std::pair{count, blocks}; };
  const DeviceFacts large = some_device(), one = small_device(1), two = small_device(2);
  EXPECT_EQ(parts(64, 128, large), each(1, 2));
  EXPECT_EQ(parts(132, 128, large), each(1, 1));
  EXPECT_EQ(parts(1, 1, large), each(1, 1));
  EXPECT_GE(parts(1, 16'384, large).first, 100);
  // The texts of GpuCausal.TilesGoRoundClustersOfEverySize.
  EXPECT_EQ(parts(1, 8, one), each(1, 1));
  EXPECT_EQ(parts(1, 15, two), each(1, 2));
  EXPECT_EQ(parts(1, 25, large), each(1, 4));
  EXPECT_EQ(parts(1, 40, large), each(1, 8));
  EXPECT_EQ(parts(1, 49, large), each(17, 1));
  for (const int64_t heads : {1, 3, 64, 1000}) {
    for (const int64_t tiles : {1, 2, 13, 128, 1024, 100'000}) {
      const ForwardParts of = causal_forward_parts(heads, tiles, some_device(), kTeams);
      EXPECT_EQ(of.summed % kHopperTile, 0);
      EXPECT_LE(of.summed, kMostPartTokens);
      EXPECT_EQ(of.tokens % of.summed, 0) << heads << " heads of " << tiles << " tiles";
      EXPECT_TRUE(of.blocks == 1 || of.tokens >= tiles * kHopperTile);
      EXPECT_LE(of.tokens, kMostSwept);
    }
  }
}

// Which causal calls go by warpgroups: heads of 64 along a line or without turns; in the backward a
// head of keys for each of queries.
TEST(Plans, CausalSweepsByWarpgroups) {
  struct Case {
    const char* about;
    int64_t dim, heads;
    bool rope, local, gate, forward, backward;
  };
  const Case cases[] = {{"usual", 64, 1, true, false, false, true, true},
                        {"with a local term", 64, 1, true, true, false, true, true},
                        {"with a tail", 64, 1, true, true, true, true, true},
                        {"with a gate alone", 64, 1, true, false, true, true, true},
                        {"without turns", 64, 1, false, false, false, true, true},
                        {"with groups of heads", 64, 3, true, false, false, true, false},
                        {"of larger heads", 128, 1, true, false, false, false, false}};
  for (const Case& c : cases) {
    AttentionInputs<BFloat16> inputs = some_inputs(1, 700, c.dim);
    inputs.q.heads = c.heads;
    if (c.local) inputs.local = inputs.q;
    if (c.gate) inputs.gate = inputs.q;
    AttentionOptions options;
    if (c.rope) options.q_rope = options.k_rope = Rope::line();
    auto goes = [&](Direction direction) {
      return Plan<BFloat16>(inputs, options, direction, some_device(), {}, {.causal = true})
                 .query_cluster > 0;
    };
    EXPECT_EQ(goes(Direction::kForward), c.forward) << c.about;
    EXPECT_EQ(goes(Direction::kBackward), c.backward) << c.about;
  }
}

// A forward without turns takes both sums of keys for one, as those of a state may not be; and it
// is a forward that finds the gradient of a gate.
TEST(Plans, StatesWithoutTurnsAreNotForTheForwardByWarpgroups) {
  AttentionInputs<BFloat16> inputs = some_inputs(1, 700, 64);
  const std::vector<int64_t> before = {9};
  auto goes = [&](Direction direction) {
    return Plan<BFloat16>(inputs, {}, direction, some_device(), {},
                          {.causal = true, .counts_before = before})
               .query_cluster > 0;
  };
  EXPECT_FALSE(goes(Direction::kForward));
  EXPECT_TRUE(goes(Direction::kBackward));
  inputs.gate = inputs.q;
  EXPECT_FALSE(goes(Direction::kBackward));
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

// An output that vectors cannot walk over turns a forward by warpgroups into that of the kernels
// for all, whose parts are those that are summed, of one block each.
TEST(Plans, UnfitOutputsAreNotForWarpgroups) {
  const AttentionInputs<BFloat16> inputs = some_inputs(64, 8192, 64);
  AttentionOptions options;
  options.q_rope = options.k_rope = Rope::line();
  Plan<BFloat16> plan(inputs, options, Direction::kForward, some_device(), {}, {.causal = true});
  ASSERT_GT(plan.query_grid().blocks, 1);
  alignas(16) static BFloat16 nothing[2];
  HeadsView<BFloat16> out = dense_heads(nothing, 64, 1, 8192, 64);
  out.data = nothing + 1;
  plan.set_tensors(out);
  EXPECT_EQ(plan.query_cluster, 0);
  EXPECT_EQ(plan.query_grid().blocks, 1);
  EXPECT_EQ(plan.call.q_part_tokens, plan.call.k_part_tokens);
  EXPECT_EQ(plan.most_query_parts, plan.most_key_parts);
}

// Of texts of very different lengths each has the room that it needs itself.
TEST(Plans, ShortTextsBesideALongOneNeedLittle) {
  std::vector<int64_t> offsets = {0, 1'000'000};
  for (int i = 0; i < 100; ++i) offsets.push_back(offsets.back() + 16);
  AttentionInputs<BFloat16> inputs = some_inputs(1, offsets.back(), 64);
  inputs.lengths.q_offsets = inputs.lengths.k_offsets = offsets;
  AttentionOptions options;
  options.q_rope = options.k_rope = Rope::line();
  auto scratch = [&] {
    return Plan<BFloat16>(inputs, options, Direction::kForward, some_device(), {}, {.causal = true})
        .scratch_bytes;
  };
  const int64_t both = scratch();
  inputs.lengths.q_offsets = inputs.lengths.k_offsets = std::span(offsets).first(2);
  const int64_t state = attention_state_size(1, 1, 64, 64) * static_cast<int64_t>(sizeof(float));
  EXPECT_LT(both - scratch(), 100 * 3 * state);
}

// What a plan says when it is refused.
std::string refusal_of(const AttentionInputs<BFloat16>& inputs, const Form& form) {
  try {
    const Plan<BFloat16> plan(inputs, {}, Direction::kForward, some_device(), {}, form);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Heads beyond 128 have parts of a tile each, as many as a grid has in its second dimension.
TEST(Plans, CausalSequencesOfLargeHeadsEndSomewhere) {
  const Form causal{.causal = true};
  EXPECT_EQ(refusal_of(some_inputs(1, 4'194'240, 256), causal), "");
  EXPECT_EQ(refusal_of(some_inputs(1, 4'194'241, 256), causal),
            "[attention] a causal sequence of 4194241 tokens in heads beyond 128 is more than a "
            "GPU takes at once, 4194240; give it in chunks with a state, or use smaller heads");
  EXPECT_EQ(refusal_of(some_inputs(1, 10'000'000, 256), {}), "");
  EXPECT_EQ(refusal_of(some_inputs(1, 10'000'000, 128), causal), "");
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

// One long text makes parts of all, of which teams of a block after the other would lose count.
TEST(Plans, PartsOfAllHeadsAreAsManyAsAGpuCounts) {
  std::vector<int64_t> offsets = {0, 4'000'000};
  while (offsets.size() < 1'000'000) offsets.push_back(offsets.back() + 1);
  AttentionInputs<BFloat16> inputs = some_inputs(1, offsets.back(), 64);
  inputs.q.heads = inputs.k.heads = inputs.v.heads = 32;
  inputs.lengths.q_offsets = inputs.lengths.k_offsets = offsets;
  const std::string text = refusal_of(inputs, {.causal = true});
  EXPECT_NE(text.find("[attention] 31999968 heads of all sequences in "), std::string::npos)
      << text;
  EXPECT_NE(text.find("parts each are more than a GPU counts"), std::string::npos) << text;
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
