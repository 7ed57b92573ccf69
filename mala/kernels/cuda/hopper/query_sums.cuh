// What the pass of the backward over queries sums on Hopper, and how the warpgroups of a team share
// rows.
#pragma once

#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/hopper/sums.cuh"

namespace mala::gpu::hopper {

// Of a team: two stages of gradients and weighted features in two parts; slots of queries, weights
// of tokens, and what warpgroups tell each other. Sums lie where the tiles did.
template <int kDim>
struct QueryGradientTeam {
  static constexpr int kCols = kDim == 96 ? 32 : 64;  // of a warpgroup
  static constexpr int kGroups = kDim / kCols, kThreads = kGroups * kGroupThreads;
  static constexpr int kBlocks = kCols / kBlockCols;
  using S = TileShare<kDim, kThreads>;
  static constexpr int kFeatures = 2 * S::kTileBytes, kSlots = 4 * S::kTileBytes;
  static constexpr int kWeights = kSlots + 2 * kBlocks * 16 * kThreads;
  static constexpr int kRows = kWeights + 16 * kRowTokens;  // of three numbers
  static constexpr int kRowBytes = std::max(3 * 4 * kRowTokens * kGroups, 4 * kDim * 4);
  static constexpr int kBytes = (kRows + kRowBytes + kAlign - 1) / kAlign * kAlign;
};

// A number as the first two of a narrow panel's row.
__device__ __forceinline__ void store_in_row(uint32_t panel, int row, float x) {
  const TwoParts parts(x, 0.0f);
  store_shared(panel + 16 * row, {(parts.first & 0xFFFFu) | parts.rest << 16, 0, 0, 0});
}
// The sum of both parts of what a row became, for all lanes of it.
__device__ __forceinline__ float sum_of_row(const Accumulator<8>& from, int half) {
  return __shfl_sync(~0u, from.at(0, half, 0) + from.at(0, half, 1), threadIdx.x % 32 & ~3u);
}

// Numbers of rows that each warpgroup has a part of: told by the first lane of a row, and added in
// the same order by all.
template <int kDim, int kCount>
struct RowExchange {
  static constexpr int kGroups = QueryGradientTeam<kDim>::kGroups;
  float* memory;  // of each warpgroup, kCount numbers of each row

  __device__ __forceinline__ void tell(int group, int row, const float (&parts)[kCount]) const {
    if (threadIdx.x % 4 > 0) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) memory[(group * kRowTokens + row) * kCount + i] = parts[i];
  }
  __device__ __forceinline__ void sum(int row, float (&sums)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[i] = memory[row * kCount + i];
#pragma unroll
      for (int group = 1; group < kGroups; ++group) {
        sums[i] += memory[(group * kRowTokens + row) * kCount + i];
      }
    }
  }
};

// What a warpgroup has of the sums over queries: dS of its values, and the mean value's gradient.
template <int kDim>
struct QuerySums {
  using Memory = QueryGradientTeam<kDim>;
  using S = typename Memory::S;
  static constexpr int kPanels = S::kPanels, kCols = Memory::kCols;
  int first;  // of its columns
  uint64_t weighted, token_weights;
  Accumulator<kCols> products[kPanels] = {};
  Accumulator<8> value_sums = {};

  __device__ __forceinline__ QuerySums(uint32_t memory, int of)
      : first(of * kCols),
        weighted(panel(memory + Memory::kFeatures)),
        token_weights(narrow_panel(memory + Memory::kWeights)) {}

  __device__ __forceinline__ void add(uint64_t gradients) {
    begin_products();
#pragma unroll
    for (int step = 0; step < kRowTokens / kStepRows; ++step) {
      constexpr int kStepBytes = kStepRows * kPanelRowBytes;
      const uint64_t of_panel =
          moved(gradients, first / kPanelCols * S::kPanelBytes + step * kStepBytes);
      const uint64_t right = moved(of_panel, first % kPanelCols * 2);
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        const uint64_t left = moved(weighted, p * S::kPanelBytes + step * kStepBytes);
        multiply<kCols>(products[p].c, left, right, true);
        multiply<kCols>(products[p].c, moved(left, S::kTileBytes), right, true);
      }
      multiply<8>(value_sums.c, of_panel, moved(token_weights, step * kStepRows * 16), true);
    }
    commit_products();
  }

  // As a state, swapped; and of dS times the mean value, for the keys, this warpgroup's part.
  __device__ __forceinline__ void write(const float* value_mean, float* to, float* centres) const {
    const int t = threadIdx.x % 4, lane_row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int feature = 64 * p + lane_row + 8 * half;
        if (feature >= kDim) continue;
        float centre = 0.0f;
#pragma unroll
        for (int j = 0; j < kCols / 8; ++j) {
          const float2 two = {products[p].at(j, half, 0), products[p].at(j, half, 1)};
          const int column = first + 8 * j + 2 * t;
          *reinterpret_cast<float2*>(to + swapped<kDim>(feature * kDim + column)) = two;
          centre = fmaf(two.x, value_mean[column], centre);
          centre = fmaf(two.y, value_mean[column + 1], centre);
        }
        centre = row_sum(centre);
        if (t == 0) centres[first / kCols * kDim + feature] = centre;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int value = first / kPanelCols * kPanelCols + lane_row + 8 * half;
      const float sum = sum_of_row(value_sums, half);
      if (t == 0 && first % kPanelCols == 0 && value < kDim)
        to[kDim * kDim + 2 * kDim + value] = sum;
    }
  }
};

}  // namespace mala::gpu::hopper
