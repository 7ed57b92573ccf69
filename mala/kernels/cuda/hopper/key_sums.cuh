// What the first pass of the forward sums on Hopper, and how the warpgroups of a team share it.
#pragma once

#include "mala/kernels/cuda/hopper/sums.cuh"
#include "mala/kernels/cuda/hopper/teams.cuh"

namespace mala::gpu::hopper {

// How the warpgroups of a team share the sums: each has the features of one panel, and all values.
// Features are summed too, by eight columns of ones: beside the values, where they fill a panel or
// leave room in their last, else by a product of their own.
template <int kDim>
struct SumShare {
  static constexpr int kGroups = HeadAccumulator<kDim>::kPanels;
  static constexpr bool kOnesInside = kDim % kPanelCols > 0, kOnesBehind = kDim == kPanelCols;
  static constexpr int kCols = kDim + (kOnesInside || kOnesBehind ? 8 : 0);
  static constexpr int kOnesBytes = kOnesBehind ? kStepRows * kPanelRowBytes : kNarrowOnesBytes;
};
template <int kDim>
constexpr int kSumThreads = kGroupThreads* SumShare<kDim>::kGroups;

// Of a team: stages of values and keys, which leave their place to the sums; and where turns are,
// of this tile and the next.
template <int kDim>
struct SumMemory {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  static constexpr int kStages = kDim == 128 ? 2 : 3, kKeys = S::kTileBytes,
                       kStageBytes = 2 * S::kTileBytes;
  static constexpr int kTileBytes = std::max(kStages * kStageBytes, kStateBytes<kDim>);

  uint32_t tiles;
  int* spots;

  // Where the stage after one begins.
  static __device__ __forceinline__ uint32_t next(uint32_t stage) {
    return stage == (kStages - 1) * kStageBytes ? 0 : stage + kStageBytes;
  }
  __device__ __forceinline__ int* spots_of(int tile) const {
    return spots + tile % 2 * 2 * kRowTokens;
  }
};

// By a team: those in the last panel of its values, of all stages. What is copied leaves them
// alone.
template <int kDim>
__device__ __forceinline__ void fill_ones_inside(const SumMemory<kDim>& memory, unsigned thread) {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  constexpr unsigned kStages = SumMemory<kDim>::kStages;
  if (!SumShare<kDim>::kOnesInside || thread >= kStages * kRowTokens) return;
  constexpr int kUnit = kDim % kPanelCols / 8;
  const uint32_t last = memory.tiles + thread / kRowTokens * SumMemory<kDim>::kStageBytes +
                        (S::kPanels - 1) * S::kPanelBytes;
  store_shared(last + in_panel(thread % kRowTokens, kUnit),
               {kTwoOnes, kTwoOnes, kTwoOnes, kTwoOnes});
}

// A warpgroup's share of the sums of its team: 64 features by values and by one, and 64 of the
// values. Features come from registers: row 16 w + g + 8 i of lane (g, t) of warp w is number i of
// pair 8 w + g.
template <int kDim>
struct KeySums {
  using Share = SumShare<kDim>;
  using S = TileShare<kDim, kSumThreads<kDim>>;
  using Memory = SumMemory<kDim>;
  int group;
  uint64_t values, ones;
  Accumulator<Share::kCols> products = {};
  Accumulator<8> value_sums = {}, feature_sums = {};

  __device__ __forceinline__ KeySums(const Memory& memory, uint32_t ones_at, int of)
      : group(of), values(values_of(memory.tiles, ones_at)), ones(narrow_panel(ones_at)) {}

  // 16 tokens of a tile, whose features are in two parts.
  __device__ __forceinline__ void add(uint32_t stage, int step, const LeftTwos& first,
                                      const LeftTwos& rest) {
    constexpr int kStepBytes = kStepRows * kPanelRowBytes;
    const uint64_t right = further(values, static_cast<int>(stage) + step * kStepBytes);
    begin_products();
    multiply<Share::kCols, RightRows::kSummed>(products.c, first, right);
    multiply<Share::kCols, RightRows::kSummed>(products.c, rest, right);
    if (Share::kCols == kDim) {
      multiply<8, RightRows::kSummed>(feature_sums.c, first, ones);
      multiply<8, RightRows::kSummed>(feature_sums.c, rest, ones);
    }
    multiply<8>(value_sums.c, moved(right, group * S::kPanelBytes), ones, true);
    commit_products();
  }

  // As a state, swapped. Where nothing turns, sums of features are those of plain ones too.
  __device__ __forceinline__ void write(float* to, bool turns) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x % kGroupThreads / 32;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = group * kPanelCols + 16 * warp + 2 * g + half;
      if (row >= kDim) continue;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        *reinterpret_cast<float2*>(to + swapped<kDim>(row * kDim + 2 * t + 8 * j)) = {
            products.at(j, half, 0), products.at(j, half, 1)};
      }
      if (t > 0) continue;
      float* vectors = to + kDim * kDim;
      const float sum =
          Share::kCols > kDim ? products.at(kDim / 8, half, 0) : feature_sums.at(0, half, 0);
      if (!turns) vectors[row] = sum;
      vectors[kDim + row] = sum;
      const int value = group * kPanelCols + 16 * warp + g + 8 * half;
      if (value < kDim) vectors[2 * kDim + value] = value_sums.at(0, half, 0);
    }
  }

 private:
  static __device__ __forceinline__ uint64_t values_of(uint32_t first, uint32_t ones_at) {
    return panel(first, Share::kOnesBehind ? static_cast<int>(ones_at - first) : S::kPanelBytes);
  }
  static __device__ __forceinline__ uint64_t further(uint64_t values, int bytes) {
    return Share::kOnesBehind ? moved_alone(values, bytes) : moved(values, bytes);
  }
};

}  // namespace mala::gpu::hopper
