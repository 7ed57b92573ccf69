// The whole forward in one kernel on Hopper: a block, or a cluster of them, has a head from its
// first key to its last query, and the state never waits for another kernel. Usual calls in
// bfloat16 alone, whose sequences are all alike and whose heads have keys of their own.
#pragma once

#include "mala/kernels/cuda/hopper/apply_queries.cuh"
#include "mala/kernels/cuda/hopper/sum_keys.cuh"

namespace mala::gpu::hopper {

// First tiles of keys; in their place the sums of the teams, of which the block's are the first
// team's, and behind those S_c. A cluster's sums have their place with the third team, and slots of
// queries with all of them, where no sums are. Ones leave theirs to the vectors.
template <int kDim, int kTeams, class Kind>
struct WholeBlock {
  using Sum = SumMemory<kDim>;
  using Apply = ApplyPass<kDim, Kind>;
  static constexpr int kThreads = kTeams * kGroupThreads;
  static constexpr int kTotal = kTeams > 2 ? 2 * Sum::kTileBytes : 0;
  static constexpr int kMatrix = kStateBytes<kDim>;
  static constexpr int kSlots = Sum::kTileBytes - Apply::kSlotBytes;
  static constexpr int kOnes = kTeams * Sum::kTileBytes, kVectors = kOnes;
  static constexpr int kSpots =
      kOnes + std::max(SumShare<kDim>::kOnesBytes, QueryVectors<kDim>::kBytes);
  static constexpr int kTurns = kSpots + kTeams * kSpotBytes;
  static constexpr int kBytes = kTurns + near_bytes<Kind>(near_bytes_forward(kDim, kTeams));
  static constexpr int kAtOnce = kWholeTeams / kTeams;  // on a multiprocessor
  static_assert(fit_at_once(kAtOnce, kBytes) && kOnes % kPanelRowBytes == 0);
  static_assert(kMatrix + FineMatrix<kDim>::kBytes <= kSlots);
};

// The keys of a block into sums, those of each team in its own place. Returns how they turn.
template <int kDim, int kTeams, class Kind>
__device__ __forceinline__ Turning sum_keys_of(const Call<BFloat16>& call, const Task& keys,
                                               const Team<kGroupThreads>& team, std::byte* memory) {
  using Block = WholeBlock<kDim, kTeams, Kind>;
  using Sum = SumMemory<kDim>;
  static_assert(kSumThreads<kDim> == kGroupThreads);
  const uint32_t at = shared_address(memory);
  fill_ones(at + Block::kOnes, SumShare<kDim>::kOnesBytes);
  SumPass<kDim, Kind> pass(
      call, keys, kTeams,
      {at + team.index * Sum::kTileBytes,
       reinterpret_cast<int*>(memory + Block::kSpots) + team.index * kSpotBytes / 4});
  Turning turning =
      near_turning<kDim, Kind>(call.k_turning, call.k_frequencies,
                               near_tokens(keys, keys.sequence.k_width), memory + Block::kTurns);
  __syncthreads();
  wait_for_turns(turning);
  let_next_begin();
  pass.run(turning, keys, at + Block::kOnes,
           reinterpret_cast<float*>(memory) + team.index * (Sum::kTileBytes / 4));
  return turning;
}

// Grid (heads, blocks of a head), which are a cluster.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(WholeBlock<kDim, kTeams, Kind>::kThreads,
                                  WholeBlock<kDim, kTeams, Kind>::kAtOnce)
    whole_heads_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = WholeBlock<kDim, kTeams, Kind>;
  using Sum = SumMemory<kDim>;
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  const uint32_t at = shared_address(memory);
  const Task keys = key_task(call), task = query_task_beside(call, keys, blockIdx.y);
  const Team<kGroupThreads> team;
  auto* sums = reinterpret_cast<float*>(memory);
  Turning turning = sum_keys_of<kDim, kTeams, Kind>(call, keys, team, memory);
  team.sync();  // nothing but sums is needed of the tiles
  typename Block::Apply pass(call, task, kTeams, at + team.index * Sum::kTileBytes + Block::kSlots);
  add_teams<kDim, Block::kThreads>(sums, kTeams, Sum::kTileBytes / 4);

  const Cluster cluster;
  const float* total = add_cluster<kDim, Block::kThreads>(cluster, sums, Block::kTotal / 4);
  // Only now: a barrier of the cluster waits for whatever was stored before it.
  if (call.state) {
    write_share<kDim, Block::kThreads>(cluster, total, call.state + task.unit * kStateSize<kDim>);
  }

  turn_as<kDim, Kind>(call, call.q_turning, call.q_frequencies,
                      near_tokens(task, task.sequence.q_width), memory + Block::kTurns, turning);
  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const QueryVectors<kDim> head(memory + Block::kVectors);
  const FineMatrix<kDim> matrix{at + Block::kMatrix};
  show_state<Block::kThreads>(
      call, scales, total, [](unsigned i) { return swapped<kDim>(i); }, head, matrix);
  pass.run(call, turning, task, scales.c, head, matrix);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
