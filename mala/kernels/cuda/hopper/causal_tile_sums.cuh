// What a tile adds to the sums over keys in the causal forward on Hopper.
#pragma once

#include "mala/kernels/cuda/hopper/causal_broken.cuh"

namespace mala::gpu::hopper {

// How many keys there are before a tile, and in it.
struct TileKeys {
  int before, own;

  // Whether there are twice as many before it as when that was so last: values are taken about the
  // mean of all so far from then on, or those of the first tile would count for ever.
  __device__ __forceinline__ bool moves_centre() const {
    const int tiles = before / kRowTokens;
    return own > 0 && (tiles & (tiles - 1)) == 0;
  }
};

// Of a tile: keys with their values, (values, features); values; and of keys before and after they
// turn a pair of features for each lane, the former in the last warp alone. Then the centre of the
// lane's rows.
struct TileSums {
  TileRows matrix;
  Accumulator<8> values;
  float2 keys, rotated_keys;
  float centre[2];

  // Keys with their values, not waited for.
  __device__ __forceinline__ void multiply_keys(uint64_t of_values, uint64_t of_keys,
                                                uint32_t ones) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint64_t v = step_of<RightRows::kSummed>(of_values, step);
      const uint64_t k = step_of<RightRows::kSummed>(of_keys, step);
      multiply<64>(matrix.c, v, moved(k, kTilePanelBytes), step > 0);
      multiply<64>(matrix.c, v, k, true);
      multiply<8>(values.c, v, narrow_panel(ones), step > 0);
    }
    commit_products();
  }

  // Keys with values about the centre.
  __device__ __forceinline__ void take_about_centre() {
    const int t = static_cast<int>(threadIdx.x % 4);
    take_centre_off(matrix, centre, [&](int j) { return pair_of_warp(rotated_keys, 4 * j + t); });
  }

  // What was left out since it is no number has its effect on all tiles after this one.
  __device__ __forceinline__ void spoil(const BrokenRows& broken, const TileLane& lane) {
    if (broken.by_key < kRowTokens) keys = rotated_keys = {NAN, NAN};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (broken.by_value[lane.row(half)] < kRowTokens) values.c[2 * half] = NAN;
    }
  }
};

// Two columns of the warp's last row, which four lanes have.
__device__ __forceinline__ float2 last_row(const TileRows& rows) {
  const int lane = threadIdx.x % 32;
  float2 two = {};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 of_pair{__shfl_sync(~0u, rows.at(j, 1, 0), 28 + lane % 4),
                         __shfl_sync(~0u, rows.at(j, 1, 1), 28 + lane % 4)};
    if (j == lane / 4) two = of_pair;
  }
  return two;
}

}  // namespace mala::gpu::hopper
