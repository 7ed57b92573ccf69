// RoPE on eight neighbouring elements: the turns of a token, composed from two small tables.
#pragma once

#include "mala/kernels/cuda/call.h"
#include "mala/kernels/cuda/eight.cuh"

namespace mala::gpu {

// Where a token's turns begin in the tables: on the line or by row, and by column. The latter as if
// the pairs of the rows stood before them.
struct Spot {
  int rest = 0, block = 0;
  int column_rest = 0, column_block = 0;
};

// Goes from token to token in equal steps.
class Walk {
 public:
  __device__ __forceinline__ Walk(const Turning& by, int64_t token, int64_t width, int step) {
    if (!by.turns) return;
    const int64_t position = by.by_table ? token : by.offset + token;
    const bool in_grid = by.axis_pairs < by.pairs;
    width_ = in_grid ? static_cast<int>(min(width, int64_t{1} << 30)) : 1 << 30;
    const int64_t row = in_grid ? position / width : position;
    column_ = in_grid ? static_cast<int>(position - row * width) : 0;
    row_ = static_cast<int>(row - by.first_block * kTurnBlock);
    row_step_ = in_grid ? step / width_ : step;
    column_step_ = in_grid ? step % width_ : 0;
  }
  __device__ __forceinline__ void advance() {
    row_ += row_step_;
    column_ += column_step_;
    if (column_ >= width_) {
      column_ -= width_;
      ++row_;
    }
  }
  // Rows beyond the last would lead out of the tables: they turn as the first.
  __device__ __forceinline__ Spot spot(const Turning& by, bool exists) const {
    if (!exists) return {0, 0, -by.axis_pairs, -by.axis_pairs};
    const int pairs = by.axis_pairs;
    if (by.by_table) return {row_ * pairs, 0, 0, 0};
    constexpr unsigned kBlock = kTurnBlock;
    const unsigned row = row_, column = column_;  // never negative
    return {static_cast<int>(row % kBlock) * pairs, static_cast<int>(row / kBlock) * pairs,
            static_cast<int>(column % kBlock) * pairs - pairs,
            (static_cast<int>(column / kBlock) + by.column_blocks) * pairs - pairs};
  }

 private:
  int row_ = 0, column_ = 0, width_ = 1, row_step_ = 0, column_step_ = 0;
};

// The turns of four pairs, as (cos, sin, cos, sin).
struct Turns {
  float4 first, second;
};

__device__ __forceinline__ float4 compose(const float4& a, const float4& b) {
  return {a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y, a.z * b.z - a.w * b.w,
          a.w * b.z + a.z * b.w};
}

__device__ __forceinline__ float4 turns_in(const Turn* table, int at) {
  return __ldg(reinterpret_cast<const float4*>(table + at));
}

// Two pairs by row and two by column: heads whose quarter is no multiple of four pairs.
static __device__ __noinline__ Turns mixed_turns(const Turning& by, Spot spot, int pair) {
  const int next = pair + 2;
  const bool by_column = next >= by.axis_pairs;
  Turns turns{turns_in(by.rests, spot.rest + pair),
              turns_in(by.rests, (by_column ? spot.column_rest : spot.rest) + next)};
  if (by.blocks) {
    turns.first = compose(turns.first, turns_in(by.blocks, spot.block + pair));
    turns.second = compose(
        turns.second, turns_in(by.blocks, (by_column ? spot.column_block : spot.block) + next));
  }
  return turns;
}

// Of the four pairs from column `column` on; of any where the head has no such columns.
__device__ __forceinline__ Turns turns_of_eight(const Turning& by, const Spot& spot, int column) {
  const int pair = column < 2 * by.pairs ? column / 2 : 0;
  const bool by_column = pair >= by.axis_pairs;
  if (!by_column && pair + 2 >= by.axis_pairs) return mixed_turns(by, spot, pair);
  const int rest = (by_column ? spot.column_rest : spot.rest) + pair;
  Turns turns{turns_in(by.rests, rest), turns_in(by.rests, rest + 2)};
  if (by.blocks) {
    const int block = (by_column ? spot.column_block : spot.block) + pair;
    turns.first = compose(turns.first, turns_in(by.blocks, block));
    turns.second = compose(turns.second, turns_in(by.blocks, block + 2));
  }
  return turns;
}

template <bool kBack>
__device__ __forceinline__ void rotate_pair(float& x0, float& x1, float cos, float sin) {
  const float s = kBack ? -sin : sin;
  const float y0 = x0 * cos - x1 * s;
  x1 = x1 * cos + x0 * s;
  x0 = y0;
}

// R x, or its inverse R^T x.
template <bool kBack>
__device__ __forceinline__ Eight rotated(Eight e, const Turns& by) {
  rotate_pair<kBack>(e.x[0], e.x[1], by.first.x, by.first.y);
  rotate_pair<kBack>(e.x[2], e.x[3], by.first.z, by.first.w);
  rotate_pair<kBack>(e.x[4], e.x[5], by.second.x, by.second.y);
  rotate_pair<kBack>(e.x[6], e.x[7], by.second.z, by.second.w);
  return e;
}

}  // namespace mala::gpu
