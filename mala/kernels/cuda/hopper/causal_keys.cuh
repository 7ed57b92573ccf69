// What the causal backward over queries on Hopper knows of keys: those of a tile, and the sums
// before it, which run along.
#pragma once

#include "mala/kernels/cuda/causal_keys.cuh"
#include "mala/kernels/cuda/hopper/causal_broken.cuh"

namespace mala::gpu::hopper {

// The sums over all keys before a tile, for values about a centre: what these have in common would
// cost digits. The matrix is held the other way round, (values, features), and values' sum is that
// of the part alone.
template <class Kind>
struct SweepState {
  TileTurns<Kind> turns;
  int warp;
  SweepPanels panels;
  TileRows matrix;
  Accumulator<8> values;

  // Of the rotated keys of the last tile alone; that values are taken about.
  __device__ __forceinline__ float* tile_sum() const { return panels.vector(4); }
  __device__ __forceinline__ float* centres() const { return panels.vector(5); }

  // From the sums before the part, with the first position of the part.
  __device__ __forceinline__ void start(const float* from, const Call<BFloat16>& call,
                                        int64_t position, const Team<kGroupThreads>& team) {
    const StateLayout& layout = call.layout;
    const TileLane lane = TileLane::again(warp);
    const OneTurn turn(call.q_turning, Kind::kTurns ? position : 0);
    if (team.thread < 64) panels.key_sum(0)[team.thread] = from[layout.keys() + team.thread];
    if (team.thread < 32) {
      float2 two = reinterpret_cast<const float2*>(from + layout.rotated_keys())[team.thread];
      turn_back(two, team.thread, [&](int pair) { return turn.of(pair); });
      reinterpret_cast<float2*>(panels.rotated_sum(0))[team.thread] = two;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      centres()[lane.row(half)] = from[layout.values() + lane.row(half)];
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = lane.column(j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 two{from[column * 64 + lane.row(half)], from[column * 64 + 64 + lane.row(half)]};
        turn_back(two, column / 2, [&](int pair) { return turn.of(pair); });
        matrix.at(j, half, 0) = two.x;
        matrix.at(j, half, 1) = two.y;
      }
    }
    values = {};
    team.sync();
    show();
  }

  // Keys and values of a tile, the latter in a panel; not waited for.
  __device__ __forceinline__ void add(uint32_t of_values, uint32_t ones) {
    const uint64_t left = panel(of_values);
    const uint64_t right = panel(panels.address + SweepPanels::kRotated);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t v = step_of<RightRows::kSummed>(left, step);
      const uint64_t k = step_of<RightRows::kSummed>(right, step);
      multiply<64>(matrix.c, v, moved(k, kTilePanelBytes), true);
      multiply<64>(matrix.c, v, k, true);
      multiply<8>(values.c, v, narrow_panel(ones), true);
    }
    commit_products();
  }

  // After a tile with so many keys, `seen` with all before it: the sums before tile `next`. The
  // tile's values went in as they are. The first keys of all have no mean before them; those after
  // their tile do.
  __device__ __forceinline__ void go_on(int next, int keys, int seen) {
    const auto count = static_cast<float>(keys);
    const TileLane lane = TileLane::again(warp);
    if (next == 1 && seen == keys) {
      const float inverse = nearly_inverse(count);
#pragma unroll
      for (int half = 0; half < 2; ++half) centres()[lane.row(half)] = inverse * values.c[2 * half];
    }
    const float centre[2] = {centres()[lane.row(0)], centres()[lane.row(1)]};
    take_centre_off(matrix, centre, [&](int j) { return two_of(tile_sum(), j); });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      values.c[2 * half] = fmaf(-count, centre[half], values.c[2 * half]);
    }
    turn_columns<true>(matrix, turns, lane);
    show();
  }

  // Two columns of the sum of the tile's rotated keys, which is kept; with that before it, turned
  // back, it becomes that before the next tile.
  __device__ __forceinline__ void keep_rotated(int tile, int pair, const float2& of_tile) const {
    reinterpret_cast<float2*>(tile_sum())[pair] = of_tile;
    float2 sum = reinterpret_cast<const float2*>(panels.rotated_sum(tile))[pair];
    sum.x += of_tile.x;
    sum.y += of_tile.y;
    turn_back(sum, pair, [&](int of) { return turns.of_tile(of); });
    reinterpret_cast<float2*>(panels.rotated_sum(tile + 1))[pair] = sum;
  }

 private:
  template <class TurnOf>
  static __device__ __forceinline__ void turn_back(float2& two, int pair, TurnOf turn_of) {
    if (!Kind::kTurns) return;
    const float2 turn = turn_of(pair);
    rotate_pair<true>(two.x, two.y, turn.x, turn.y);
  }

  // The matrix and the values' sum become right sides of products.
  __device__ __forceinline__ void show() const {
    const TileLane lane = TileLane::again(warp);
    store_rows(panels.address + SweepPanels::kMatrix, lane.places, matrix);
    if (lane.t > 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = values.c[2 * half];
      const float centre = centres()[lane.row(half)];
      const TwoParts u(sum, sum), c(centre, centre);
      store_shared(panels.address + SweepPanels::kNarrow + 16 * lane.row(half),
                   {u.first, u.rest, c.first, c.rest});
    }
  }
};

}  // namespace mala::gpu::hopper
