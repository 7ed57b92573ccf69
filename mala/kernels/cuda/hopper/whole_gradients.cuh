// The whole backward of a head in one kernel on Hopper, in one block or in a cluster: its queries,
// then its keys. The gradient of the state stays in shared memory.
#pragma once

#include "mala/kernels/cuda/hopper/key_gradients.cuh"
#include "mala/kernels/cuda/hopper/query_gradients.cuh"

namespace mala::gpu::hopper {

// First what the pass over queries has, of which sums are left, in the first team's place; behind
// them come the matrices of keys, and then a cluster's sums. Tiles of keys have a place of their
// own, so that they may come before the sums are there.
template <int kDim, int kTeamsOfBlock>
struct WholeGradientBlock {
  using S = TileShare<kDim, kGroupThreads>;
  using Queries = QueryGradientBlock<kDim, kTeamsOfBlock>;
  static constexpr int kTeams = kTeamsOfBlock, kThreads = kTeams * kGroupThreads, kStages = 2;
  static constexpr int kAtOnce = Queries::kAtOnce;  // on a multiprocessor
  static constexpr int kMatrices = kStateBytes<kDim>;
  static constexpr int kTotal = kMatrices + StateGradient<kDim>::kBytes;
  static constexpr int kTurns = Queries::kTurns;
  static constexpr int kValues =
      (kTurns + near_bytes_of_keys(kDim, kTeams) + kAlign - 1) / kAlign * kAlign;
  static constexpr int kOnes = kValues + kTeams * kStages * S::kTileBytes;
  static constexpr int kSlots = kOnes + kNarrowGroupBytes;
  static constexpr int kVectors = kSlots + kTeams * LaneRows<kDim>::kSlotBytes;
  static constexpr int kBytes = kVectors + KeyVectors<kDim>::kBytes;
  static_assert(kTotal + (kTeams > 1 ? kStateBytes<kDim> : 0) <= Queries::kMeans);
  static_assert(Queries::kThreads == kThreads && fit_at_once(kAtOnce, kBytes));
};

// The second half: keys of a block, from the gradient of their state, whose floats lie at place(i).
template <int kDim, class Block, class Kind, class Place>
__device__ __forceinline__ void find_key_gradients(const Call<BFloat16>& call, const Task& task,
                                                   const float* sums, Place place,
                                                   std::byte* memory, Turning& turning,
                                                   KeyGradientPass<kDim, Block, Kind>& pass) {
  turn_as<kDim, Kind>(call, call.k_turning, call.k_frequencies,
                      near_tokens(task, task.sequence.k_width), memory + Block::kTurns, turning);
  show_state_gradient<kDim, Block>(call, task, sums, place, memory);
  const KeyVectors<kDim> head(memory + Block::kVectors);
  pass.run(call, turning, task, head, shared_address(memory));
}

// Grid (heads, blocks of a head), which are a cluster.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(WholeGradientBlock<kDim, kTeams>::kThreads,
                                  WholeGradientBlock<kDim, kTeams>::kAtOnce)
    whole_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = WholeGradientBlock<kDim, kTeams>;
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  if (call.has_tail()) wait_for_previous();  // which wrote what is copied
  const Task keys = key_task(call), queries = query_task_beside(call, keys, blockIdx.y);
  Turning turning = find_query_gradients<kDim, kTeams, Kind>(call, queries, memory);
  KeyGradientPass<kDim, Block, Kind> pass(call, keys, shared_address(memory));
  auto* sums = reinterpret_cast<float*>(memory);
  add_teams<kDim, Block::kThreads>(sums, kTeams, Block::Queries::Memory::kBytes / 4);
  const float* total = add_cluster<kDim, Block::kThreads>(Cluster(), sums, Block::kTotal / 4);
  find_key_gradients(
      call, keys, total, [](unsigned i) { return swapped<kDim>(i); }, memory, turning, pass);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
