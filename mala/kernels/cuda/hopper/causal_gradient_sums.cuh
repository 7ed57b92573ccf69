// The gradients of the sums of a causal call on Hopper, as they run along from the last tile to the
// first.
#pragma once

#include "mala/kernels/cuda/hopper/causal_tile.cuh"

namespace mala::gpu::hopper {

// The gradients of the sums, of all tokens after a tile. That of the products is held the other way
// round, (values, features).
template <class Kind>
struct GradientSums {
  TileTurns<Kind> turns;
  TileLane lane;
  SweepPanels panels;
  TileRows matrix;
  Accumulator<8> by_values, by_features;  // of this part's tokens; of this tile's
  float later[2];                         // of values, after the part

  __device__ __forceinline__ float* values() const { return panels.vector(4); }
  __device__ __forceinline__ float* features() const { return panels.vector(5); }

  // From those after the part, with the first position of its last tile.
  __device__ __forceinline__ void start(const float* from, const Call<BFloat16>& call, int tile,
                                        int64_t position, const Team<kGroupThreads>& team) {
    const StateLayout& layout = call.layout;
    const OneTurn turn(call.q_turning, Kind::kTurns ? position : 0);
    auto turn_back = [&](float2& two, int pair) {
      if (!Kind::kTurns) return;
      const float2 by = turn.of(pair);
      rotate_pair<true>(two.x, two.y, by.x, by.y);
    };
    if (team.thread < 64) panels.key_sum(tile)[team.thread] = from[layout.keys() + team.thread];
    if (team.thread < 32) {
      float2 two = reinterpret_cast<const float2*>(from + layout.rotated_keys())[team.thread];
      turn_back(two, team.thread);
      reinterpret_cast<float2*>(panels.rotated_sum(tile))[team.thread] = two;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) later[half] = from[layout.values() + lane.row(half)];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = lane.column(j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 two{from[column * 64 + lane.row(half)], from[column * 64 + 64 + lane.row(half)]};
        turn_back(two, column / 2);
        matrix.at(j, half, 0) = two.x;
        matrix.at(j, half, 1) = two.y;
      }
    }
    by_values = {};
    show();
  }

  // Queries of a tile with gradients in a panel, not waited for.
  __device__ __forceinline__ void add(uint32_t gradients) {
    const uint64_t left = panel(gradients);
    const uint64_t right = panel(panels.address + SweepPanels::kRotated);
    const uint64_t narrow = narrow_panel(panels.address + SweepPanels::kNarrow);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t g = step_of<RightRows::kSummed>(left, step);
      const uint64_t q = step_of<RightRows::kSummed>(right, step);
      const uint64_t weights = moved(narrow, step * kStepRows * 16);
      multiply<64>(matrix.c, g, moved(q, kTilePanelBytes), true);
      multiply<64>(matrix.c, g, q, true);
      multiply<8>(by_values.c, g, weights, true);
      multiply<8>(by_features.c, moved(q, kTilePanelBytes), weights, step > 0);
      multiply<8>(by_features.c, q, weights, true);
    }
    commit_products();
  }

  // What add() left of rotated queries becomes a vector.
  __device__ __forceinline__ void keep_features() const {
    if (lane.t > 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      features()[lane.row(half)] = by_features.at(0, half, 0) + by_features.at(0, half, 1);
    }
  }
  // After a tile: the gradients as the one before it sees them. Everyone has kept features.
  __device__ __forceinline__ void go_back(int tile) {
    if (lane.warp == 0) {
      const int pair = threadIdx.x % 32;
      float2 sum = reinterpret_cast<const float2*>(panels.rotated_sum(tile))[pair];
      const float2 more = reinterpret_cast<const float2*>(features())[pair];
      sum.x += more.x;
      sum.y += more.y;
      if (Kind::kTurns) {
        const float2 turn = turns.of_tile(pair);
        rotate_pair<false>(sum.x, sum.y, turn.x, turn.y);
      }
      reinterpret_cast<float2*>(panels.rotated_sum(tile - 1))[pair] = sum;
    }
    turn_columns<false>(matrix, turns, lane);
    show();
  }

 private:
  // The matrix becomes a right side of products, and the values' gradient a vector.
  __device__ __forceinline__ void show() const {
    store_rows(panels.address + SweepPanels::kMatrix, lane.places, matrix);
    if (lane.t != 1) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      values()[lane.row(half)] =
          later[half] + (by_values.at(0, half, 0) + by_values.at(0, half, 1));
    }
  }
};

}  // namespace mala::gpu::hopper
