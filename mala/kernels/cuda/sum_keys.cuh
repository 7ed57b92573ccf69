// The first pass of the forward: keys into sums.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/sums.cuh"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu {

// Shared memory of a block that sums keys: stages of keys and values, and the features of a tile.
template <typename T, int kDim>
struct KeySumMemory {
  using S = Shape<kDim>;
  using Features = FeatureTile<T, kDim, S::kTokens>;
  static constexpr int kKeyBytes = S::kTokens * kDim * sizeof(T);
  static constexpr int kStageBytes = kKeyBytes + S::kTokens * S::kChunk * sizeof(T);
  static constexpr int kStages = stages(Features::kBytes, kStageBytes);
  static constexpr int kBytes = Features::kBytes + kStages * kStageBytes;

  std::byte* memory;

  __device__ Features features() const { return Features(memory); }
  __device__ Tile<T, kDim> keys() const {
    return {reinterpret_cast<T*>(memory + Features::kBytes)};
  }
  __device__ Tile<T, S::kChunk> values(int tile) const {
    return {reinterpret_cast<T*>(memory + Features::kBytes + kKeyBytes + stage(tile))};
  }
  static __device__ int stage(int tile) { return tile % kStages * kStageBytes; }
};

// This lane's features of a tile of keys, turned; `plain` sums them as they were before.
template <bool kTurns, typename T, int kDim>
__device__ __forceinline__ void key_features(const Call<T>& call, const LaneTokens& tokens,
                                             const LaneTile<T, kDim>& keys,
                                             const FeatureTile<T, kDim, Shape<kDim>::kTokens>& to,
                                             Eight (&plain)[kDim / kBlockCols]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float counts = tokens.exists(half) ? 1.0f : 0.0f;
    const Spot spot =
        kTurns ? tokens.walks[half].spot(call.k_turning, tokens.exists(half)) : Spot{};
#pragma unroll
    for (int block = 0; block < kDim / kBlockCols; ++block) {
      // Asked for first, so that they arrive while phi is computed.
      Turns by;
      if (kTurns && call.k_turning.turns) {
        by = turns_of_eight(call.k_turning, spot, block * kBlockCols + threadIdx.x % 4 * 8);
      }
      Eight phi = features<T>(call.feature, keys.eight(half, block));
      if (kTurns && call.k_turning.turns) {
        add_scaled(plain[block], counts, phi);
        phi = rotated<false>(phi, by);
      }
      to.set_eight(half, block, phi);
    }
  }
}

// The sums of the features, which every column of their product with ones has.
template <typename T, int kDim>
__device__ __forceinline__ void store_feature_sums(const Sums<T, kDim>& sums, int64_t dim,
                                                   float* to) {
  using Sums = Sums<T, kDim>;
  const int lane = threadIdx.x % 32, g = lane / 4;
#pragma unroll
  for (int m = 0; m < Sums::kM; ++m) {
    if (lane % 4 != 0 || !Sums::sums_features(m)) continue;
    const int row = Sums::first_row() + 16 * m + g;
    if (row < dim) to[row] = sums.features[m % Sums::kMShare][0];
    if (row + 8 < dim) to[row + 8] = sums.features[m % Sums::kMShare][2];
  }
}

// Grid (heads of keys, parts, chunks of values): the sums of a part.
template <typename T, int kDim, bool kTurns>
__global__ void __launch_bounds__(Shape<kDim>::kThreads, kLeastBlocks<T, kDim>.forward)
    sum_keys_kernel(const __grid_constant__ Call<T> call) {
  using S = Shape<kDim>;
  using Memory = KeySumMemory<T, kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const Memory memory{shared};
  wait_for_previous();
  let_next_begin();
  const Task task = key_task(call);
  if (task.first == task.end) return;
  const int chunk = static_cast<int>(blockIdx.z) * S::kChunk;
  const Rows<const T> k = key_rows(call.inputs.k, task, call.vectors.k);
  const Rows<const T> v = key_rows(call.inputs.v, task, call.vectors.v);
  const int tiles = static_cast<int>(divide_up(task.end - task.first, S::kTokens));
  Stager<T> keys(k, task.first, task.end, S::kTokens);
  Stager<T> values(v, task.first, task.end, S::kTokens, chunk);
  const LaneTile<T, kDim> lane_keys(memory.keys());
  const LaneTile<T, S::kChunk> lane_values(memory.values(0));
  auto stage_tile = [&](int tile) {
    keys.stage(lane_keys.moved(Memory::stage(tile)));
    values.stage(lane_values.moved(Memory::stage(tile)));
    commit_copies();
  };

  Sums<T, kDim> sums;
  Eight plain[kDim / kBlockCols] = {};
  LaneTokens tokens(call.k_turning, task, task.sequence.k_width, S::kTokens);
  const typename Memory::Features features = memory.features();
  stage_tile(0);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();
    __syncthreads();
    if (Memory::kStages == 2 && tile + 1 < tiles) stage_tile(tile + 1);
    key_features<kTurns>(call, tokens, lane_keys.moved(Memory::stage(tile)), features, plain);
    tokens.advance(S::kTokens);
    __syncthreads();
    const int64_t left = task.end - task.first - int64_t{tile} * S::kTokens;
    accumulate(sums, features, memory.values(tile), 0,
               OneWeights{static_cast<int>(min(left, int64_t{S::kTokens}))});
    if (Memory::kStages == 1 && tile + 1 < tiles) {
      __syncthreads();
      stage_tile(tile + 1);
    }
  }

  const StateLayout& layout = call.layout;
  float* to = call.parts + task.slot * layout.size();
  store_sums(sums, layout, chunk, to);
  if (chunk > 0) return;
  store_feature_sums(sums, layout.dim, to + layout.rotated_keys());
  __syncthreads();
  if (!kTurns || !call.k_turning.turns) {
    store_feature_sums(sums, layout.dim, to + layout.keys());
  } else {
    store_column_sums<kDim>(plain, reinterpret_cast<float*>(shared), layout.dim,
                            to + layout.keys());
  }
}

}  // namespace mala::gpu
