// How causal calls fall apart on a device, and which go by warpgroups: no GPU is needed to tell.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "mala/kernels/cuda/parts.h"
#include "mala/kernels/cuda/shape.h"
#include "tests/kernels/cuda_plan_cases.h"

namespace mala::gpu {
namespace {

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

}  // namespace
}  // namespace mala::gpu
