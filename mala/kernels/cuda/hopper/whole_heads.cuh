// The whole forward in one kernel on Hopper: a block, or a cluster of them, has a head from its
// first key to its last query, and the state never waits for another kernel. Usual calls in
// bfloat16 alone, whose sequences are all alike and whose heads have keys of their own.
#pragma once

#include "mala/kernels/cuda/hopper/apply_queries.cuh"
#include "mala/kernels/cuda/hopper/sum_keys.cuh"

namespace mala::gpu::hopper {

// First tiles of keys; in their place the sums of the teams, of which the block's are the first
// team's; then S_c. Slots of rows and the rest lie behind. Sums of a whole cluster have their place
// with the third team.
template <int kDim, int kTeams, class Kind>
struct WholeBlock {
  using Sum = SumMemory<kDim>;
  using Apply = ApplyPass<kDim, Kind>;
  static constexpr int kTotal = kTeams > 2 ? 2 * Sum::kTileBytes : 0;
  static constexpr int kMatrix = (4 * Sum::kSums + kAlign - 1) / kAlign * kAlign;
  static constexpr int kSlots =
      std::max(kTeams * Sum::kTileBytes, kMatrix + FineMatrix<kDim>::kBytes);
  static constexpr int kSlotBytes = std::max(Sum::S::kSlotBytes, Apply::kSlotBytes);
  static constexpr int kVectors = kSlots + kTeams * kSlotBytes;
  static constexpr int kSpots = kVectors + QueryVectors<kDim>::kBytes;
  static constexpr int kOnes = kSpots + kTeams * Sum::kSpotBytes;
  static constexpr int kBytes = kOnes + kOnesBytes;
  static_assert(kTotal == 0 || kMatrix + FineMatrix<kDim>::kBytes <= kTotal);
};

// Grid (heads, blocks of a head), which are a cluster.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(kTeams* kGroupThreads, 4 / kTeams)
    whole_heads_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = WholeBlock<kDim, kTeams, Kind>;
  using Sum = SumMemory<kDim>;
  static_assert(kSumThreads<kDim> == kGroupThreads);
  extern __shared__ __align__(128) std::byte shared[];
  std::byte* memory = aligned(shared);
  const uint32_t at = shared_address(memory);
  const Task keys = key_task(call), task = query_task(call);
  const Team<kGroupThreads> team;
  const uint32_t slots = at + Block::kSlots + team.index * Block::kSlotBytes;
  auto* sums = reinterpret_cast<float*>(memory);
  {
    fill_ones(at + Block::kOnes);
    SumPass<kDim, Kind> pass(
        call, keys, kTeams,
        {slots, at + team.index * Sum::kTileBytes,
         reinterpret_cast<Spot*>(memory + Block::kSpots) + team.index * 2 * kRowTokens});
    __syncthreads();
    wait_for_previous();
    let_next_begin();
    pass.run(call, keys, at + Block::kOnes, sums + team.index * (Sum::kTileBytes / 4));
  }
  team.sync();  // the slots are free again
  ApplyPass<kDim, Kind> pass(call, task, kTeams, slots);
  add_teams(sums, Sum::kSums, kTeams, Sum::kTileBytes / 4);

  const Cluster cluster;
  float* state = call.state + task.unit * Sum::kSums;
  float* total = sums + (cluster.size > 1 ? Block::kTotal / 4 : 0);
  add_blocks(cluster, sums, Sum::kSums, [&](int i, const Four& four) {
    store_four(state + i, four);
    for (unsigned other = 0; other < cluster.size && cluster.size > 1; ++other) {
      store_four(cluster.in_block(total + i, other), four);
    }
  });
  if (cluster.size > 1) cluster.sync();

  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const QueryVectors<kDim> head(memory + Block::kVectors);
  const FineMatrix<kDim> matrix{at + Block::kMatrix};
  fill_vectors(call, total, scales, head);
  fill_centred(matrix, total, head);
  show_to_tensor_cores();
  __syncthreads();
  pass.run(call, task, scales.c, head, matrix);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
