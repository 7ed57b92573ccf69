// Rows of a tile as products of a warpgroup leave them and take them in: lane (g, t) of warp w has
// of rows 16 w + g and + 8 the columns 8 j + 2 t and + 1. In shared memory they are panels.
#pragma once

#include "mala/kernels/cuda/hopper/teams.cuh"

namespace mala::gpu::hopper {

constexpr int kTilePanelBytes = kRowTokens * kPanelRowBytes;
using TileRows = Accumulator<64>;

// Where in a panel the units are that this lane names when its warp moves 16 rows by 16 columns.
// All of them follow from the first, which saves registers.
struct WarpPlaces {
  uint32_t first;

  __device__ __forceinline__ explicit WarpPlaces(int warp, unsigned thread = threadIdx.x) {
    const int lane = static_cast<int>(thread % 32);
    first = in_panel(16 * warp + lane % 16, lane / 16);
  }
  __device__ __forceinline__ uint32_t at(int step) const { return first ^ (2 * step) << 4; }
};

__device__ __forceinline__ LeftTwos load_matrices(uint32_t from) {
  LeftTwos x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "r"(from)
               : "memory");
  return x;
}
__device__ __forceinline__ void store_matrices(uint32_t to, const LeftTwos& x) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to),
               "r"(x.at[0]), "r"(x.at[1]), "r"(x.at[2]), "r"(x.at[3])
               : "memory");
#endif
}

// Of rows: columns 16 * step and on. Pair i is of row g + 8 * (i % 2), and i / 2 tells which eight
// columns it is of.
__device__ __forceinline__ int pair_of(int step, int i) {
  return 4 * (2 * step + i / 2) + 2 * (i % 2);
}
__device__ __forceinline__ void unpack(const LeftTwos& from, int step, TileRows& to) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to.c[pair_of(step, i)] = low_of<BFloat16>(from.at[i]);
    to.c[pair_of(step, i) + 1] = high_of<BFloat16>(from.at[i]);
  }
}

// A number in two parts of bfloat16.
__device__ __forceinline__ uint32_t parts_of(float x) {
  const float first = low_of<BFloat16>(pack<BFloat16>(x, x));
  return pack<BFloat16>(first, x - first);
}

// Rows in two parts of bfloat16.
struct PartRows {
  LeftTwos first[4], rest[4];

  PartRows() = default;
  __device__ __forceinline__ explicit PartRows(const TileRows& x) {
#pragma unroll
    for (int step = 0; step < 4; ++step) set(step, x);
  }
  __device__ __forceinline__ void set(int step, const TileRows& x) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const TwoParts two(x.c[pair_of(step, i)], x.c[pair_of(step, i) + 1]);
      first[step].at[i] = two.first;
      rest[step].at[i] = two.rest;
    }
  }
};

// Into a panel of first parts, and that of the rest behind it.
__device__ __forceinline__ void store_rows(uint32_t panel, const WarpPlaces& places,
                                           const TileRows& x) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    PartRows parts;
    parts.set(step, x);
    store_matrices(panel + places.at(step), parts.first[step]);
    store_matrices(panel + kTilePanelBytes + places.at(step), parts.rest[step]);
  }
}

template <RightRows kRight>
__device__ __forceinline__ uint64_t step_of(uint64_t panel, int step) {
  return moved(panel,
               step * (kRight == RightRows::kSummed ? kStepRows * kPanelRowBytes : kStepRows * 2));
}

// to = (adds ? to : 0) + left * right, all in two parts.
template <RightRows kRight>
__device__ __forceinline__ void multiply_parts(TileRows& to, const PartRows& left, uint64_t right,
                                               bool adds) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const uint64_t first = step_of<kRight>(right, step), rest = moved(first, kTilePanelBytes);
    multiply<64, kRight>(to.c, left.rest[step], first, adds || step > 0);
    multiply<64, kRight>(to.c, left.first[step], rest, true);
    multiply<64, kRight>(to.c, left.first[step], first, true);
  }
}

// to += left * right, the latter as it is.
template <RightRows kRight>
__device__ __forceinline__ void multiply_by(TileRows& to, const PartRows& left, uint64_t right) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    multiply<64, kRight>(to.c, left.rest[step], step_of<kRight>(right, step), true);
    multiply<64, kRight>(to.c, left.first[step], step_of<kRight>(right, step), true);
  }
}

// A panel of ones on the diagonal and before it, by all threads of the block.
__device__ __forceinline__ void fill_triangle(uint32_t to) {
  for (int i = threadIdx.x; i < 8 * kRowTokens; i += blockDim.x) {
    const int row = i / 8, unit = i % 8;
    uint32_t twos[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = 8 * unit + 2 * j;
      twos[j] = (column <= row ? 0x3F80u : 0) | (column < row ? 0x3F800000u : 0);
    }
    store_shared(to + in_panel(row, unit), {twos[0], twos[1], twos[2], twos[3]});
  }
}

// to = of each row the sum over the rows of a tile up to it, or from it on. The tile is in two
// parts.
template <bool kFrom = false>
__device__ __forceinline__ void sum_rows_up(TileRows& to, uint64_t tile, uint64_t triangle) {
  constexpr LeftRows kLeft = kFrom ? LeftRows::kSummed : LeftRows::kKept;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const uint64_t left = moved(triangle, step * kStepRows * (kFrom ? kPanelRowBytes : 2));
    const uint64_t right = step_of<RightRows::kSummed>(tile, step);
    multiply<64, kLeft>(to.c, left, moved(right, kTilePanelBytes), step > 0);
    multiply<64, kLeft>(to.c, left, right, true);
  }
}

// Such a triangle in registers: the rows of one warp.
struct TriangleRows {
  LeftTwos steps[4];

  __device__ __forceinline__ explicit TriangleRows(int warp) {
    const int g = static_cast<int>(threadIdx.x % 32 / 4), t = static_cast<int>(threadIdx.x % 4);
    const uint32_t diagonal = (2 * t <= g ? 0x3F80u : 0) | (2 * t < g ? 0x3F800000u : 0);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      uint32_t before = step < warp ? kTwoOnes : 0, up_to = step <= warp ? kTwoOnes : 0;
      uint32_t own = step == warp ? diagonal : before;
      // Here, and not between products, which would have to wait for it.
      asm volatile("" : "+r"(before), "+r"(up_to), "+r"(own));
      steps[step] = {{own, up_to, before, own}};
    }
  }
};
// to = of each row the sum up to it, by such a triangle.
__device__ __forceinline__ void sum_rows_up(TileRows& to, const TriangleRows& triangle,
                                            uint64_t tile) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    const uint64_t right = step_of<RightRows::kSummed>(tile, step);
    const LeftTwos& left = triangle.steps[step];
    multiply<64, RightRows::kSummed>(to.c, left, moved(right, kTilePanelBytes), step > 0);
    multiply<64, RightRows::kSummed>(to.c, left, right, true);
  }
}

// The lane's columns 8 j + 2 t of a vector in shared memory.
__device__ __forceinline__ float2 two_of(const float* vector, int j) {
  return *reinterpret_cast<const float2*>(vector + 8 * j + threadIdx.x % 4 * 2);
}

// Of a lane's two rows.
struct TwoSums {
  float of[2] = {};

  __device__ __forceinline__ void add(const TileRows& a, int j, const float2& b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      of[half] = fmaf(a.at(j, half, 1), b.y, fmaf(a.at(j, half, 0), b.x, of[half]));
    }
  }
  __device__ __forceinline__ void add(const TileRows& a, const TileRows& b) {
#pragma unroll
    for (int i = 0; i < 32; ++i) of[i / 2 % 2] = fmaf(a.c[i], b.c[i], of[i / 2 % 2]);
  }
};

// Of 2 * kCount sums each lane keeps one half, and adds what a lane with the other bit has of it.
template <int kCount, int kBit>
__device__ __forceinline__ void share_sums(float* sums) {
  const bool upper = threadIdx.x & kBit;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float low = sums[i], high = sums[i + kCount];
    sums[i] = (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, kBit);
  }
}
// Sums over the 16 rows of a warp: of columns 8 g + 2 t and + 1.
__device__ __forceinline__ float2 warp_column_sums(const TileRows& x) {
  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] = x.c[4 * (i / 2) + i % 2] + x.c[4 * (i / 2) + 2 + i % 2];
  share_sums<8, 16>(sums);
  share_sums<4, 8>(sums);
  share_sums<2, 4>(sums);
  return {sums[0], sums[1]};
}

}  // namespace mala::gpu::hopper
