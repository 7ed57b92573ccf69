// What the first pass of the forward sums on Hopper, and how the warpgroups of a team share it.
#pragma once

#include "mala/kernels/cuda/hopper/sums.cuh"
#include "mala/kernels/cuda/hopper/teams.cuh"

namespace mala::gpu::hopper {

// How the warpgroups of a team share the sums: each has the features of one panel, and the values
// of one, or of all where the last panel is not full. Eight columns of ones stand beside the
// values, in what is left of that panel or behind the one, so that features are summed too.
template <int kDim>
struct SumShare {
  static constexpr int kPanels = HeadAccumulator<kDim>::kPanels;
  static constexpr bool kOnesInside = kDim % kPanelCols > 0;
  static constexpr int kValues = kOnesInside ? kDim : kPanelCols, kCols = kValues + 8;
  static constexpr int kSplits = kOnesInside ? 1 : kPanels;  // of the values
  static constexpr int kGroups = kPanels * kSplits;
  static constexpr int kOnesBytes = kOnesInside ? kNarrowOnesBytes : kStepRows * kPanelRowBytes;
};
template <int kDim>
constexpr int kSumThreads = kGroupThreads* SumShare<kDim>::kGroups;

// Of a team: two stages of values and of features in two parts, which leave their place to the
// sums; and where turns are, of this tile and the next.
template <int kDim>
struct SumMemory {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  static constexpr int kFeatures = 2 * S::kTileBytes, kTileBytes = 6 * S::kTileBytes;
  static constexpr int kPlain = 4 * S::kTileBytes + S::kTileBytes / 2;  // behind the sums
  static_assert(4 * kStateSize<kDim> <= kPlain);
  static_assert(kPlain + S::kRowsAtOnce * kDim * 4 <= kTileBytes);

  uint32_t tiles;
  void* spots;

  __device__ __forceinline__ uint32_t values(int tile) const {
    return tiles + tile % 2 * S::kTileBytes;
  }
  __device__ __forceinline__ uint32_t features(int tile) const {
    return tiles + kFeatures + tile % 2 * 2 * S::kTileBytes;
  }
  template <class SpotType>
  __device__ __forceinline__ SpotType* spots_of(int tile) const {
    return static_cast<SpotType*>(spots) + tile % 2 * kRowTokens;
  }
};

// By a team: those in the last panel of its values, of both stages. What is copied leaves them
// alone.
template <int kDim>
__device__ __forceinline__ void fill_ones_inside(const SumMemory<kDim>& memory, unsigned thread) {
  using S = TileShare<kDim, kSumThreads<kDim>>;
  if (!SumShare<kDim>::kOnesInside || thread >= 2 * kRowTokens) return;
  constexpr int kUnit = kDim % kPanelCols / 8;
  const uint32_t last = memory.values(thread / kRowTokens) + (S::kPanels - 1) * S::kPanelBytes;
  store_shared(last + in_panel(thread % kRowTokens, kUnit),
               {kTwoOnes, kTwoOnes, kTwoOnes, kTwoOnes});
}

// A warpgroup's share of the sums of its team: 64 features by values and by one, and 64 of the
// values.
template <int kDim>
struct KeySums {
  using Share = SumShare<kDim>;
  using S = TileShare<kDim, kSumThreads<kDim>>;
  int group;
  uint64_t features, values, ones;
  Accumulator<Share::kCols> products = {};
  Accumulator<8> value_sums = {};

  __device__ __forceinline__ KeySums(const SumMemory<kDim>& memory, uint32_t ones_at)
      : group(Share::kGroups == 1
                  ? 0
                  : __shfl_sync(~0u, static_cast<int>(threadIdx.x / kGroupThreads) % Share::kGroups,
                                0)),
        features(panel(memory.features(0) + group / Share::kSplits * S::kPanelBytes)),
        values(values_of(memory.values(0) + group % Share::kSplits * S::kPanelBytes, ones_at)),
        ones(narrow_panel(ones_at)) {}

  __device__ __forceinline__ void add(int tile) {
    const uint64_t lefts = moved(features, tile % 2 * 2 * S::kTileBytes);
    const uint64_t rights = further(values, tile % 2 * S::kTileBytes);
    begin_products();
#pragma unroll
    for (int step = 0; step < kRowTokens / kStepRows; ++step) {
      constexpr int kStepBytes = kStepRows * kPanelRowBytes;
      const uint64_t left = moved(lefts, step * kStepBytes);
      const uint64_t right = further(rights, step * kStepBytes);
      multiply<Share::kCols>(products.c, left, right, true);
      multiply<Share::kCols>(products.c, moved(left, S::kTileBytes), right, true);
      const int to_sum = Share::kOnesInside ? group * S::kPanelBytes : 0;
      multiply<8>(value_sums.c, moved(right, to_sum), ones, true);
    }
    commit_products();
  }

  // As a state, swapped. Where nothing turns, sums of features are those of plain ones too.
  __device__ __forceinline__ void write(float* to, bool turns) const {
    const int t = threadIdx.x % 4;
    const int place = threadIdx.x % kGroupThreads / 32 * 16 + threadIdx.x % 32 / 4;
    const int feature_panel = group / Share::kSplits, value_panel = group % Share::kSplits;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = feature_panel * kPanelCols + place + 8 * half;
      if (row >= kDim) continue;
      const int first = row * kDim + value_panel * kPanelCols + 2 * t;
#pragma unroll
      for (int j = 0; j < Share::kValues / 8; ++j) {
        *reinterpret_cast<float2*>(to + swapped<kDim>(first + 8 * j)) = {products.at(j, half, 0),
                                                                         products.at(j, half, 1)};
      }
      if (t > 0) continue;
      float* vectors = to + kDim * kDim;
      if (value_panel == 0) {
        const float sum = products.at(Share::kValues / 8, half, 0);
        if (!turns) vectors[row] = sum;
        vectors[kDim + row] = sum;
      }
      // Where warpgroups split the values, several have the same sums of them.
      if (!Share::kOnesInside && feature_panel > 0) continue;
      const int summed = Share::kOnesInside ? feature_panel : value_panel;
      vectors[2 * kDim + summed * kPanelCols + place + 8 * half] = value_sums.at(0, half, 0);
    }
  }

 private:
  static __device__ __forceinline__ uint64_t values_of(uint32_t first, uint32_t ones_at) {
    return panel(first, Share::kOnesInside ? S::kPanelBytes : static_cast<int>(ones_at - first));
  }
  static __device__ __forceinline__ uint64_t further(uint64_t values, int bytes) {
    return Share::kOnesInside ? moved(values, bytes) : moved_alone(values, bytes);
  }
};

}  // namespace mala::gpu::hopper
