// The whole forward of few heads in one kernel on Hopper: each has many blocks, more than a cluster
// has, which all run at once and wait for each other twice: for the sums of all, and for the state.
#pragma once

#include "mala/kernels/cuda/hopper/grid_sums.cuh"
#include "mala/kernels/cuda/hopper/whole_heads.cuh"

namespace mala::gpu::hopper {

// Grid (heads, blocks of a head), all of which are on the device at once.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(WholeBlock<kDim, kTeams, Kind>::kThreads, 1)
    spread_heads_kernel(const __grid_constant__ Call<BFloat16> call) {
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

  float* state = call.state + task.unit * kStateSize<kDim>;
  add_over_grid<kDim, Block::kThreads>(sums,
                                       call.parts + (keys.slot - blockIdx.y) * kStateSize<kDim>,
                                       static_cast<unsigned>(keys.sequence.k_parts), state);
  turn_as<kDim, Kind>(call, call.q_turning, call.q_frequencies,
                      near_tokens(task, task.sequence.q_width), memory + Block::kTurns, turning);
  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const QueryVectors<kDim> head(memory + Block::kVectors);
  const FineMatrix<kDim> matrix{at + Block::kMatrix};
  show_state<Block::kThreads>(
      call, scales, state, [](unsigned i) { return i; }, head, matrix);
  pass.run(call, turning, task, scales.c, head, matrix);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
