// The whole backward of few heads in one kernel on Hopper: as in their forward, all blocks of a
// head run at once and wait for each other twice, between its queries and its keys.
#pragma once

#include "mala/kernels/cuda/hopper/grid_sums.cuh"
#include "mala/kernels/cuda/hopper/whole_gradients.cuh"

namespace mala::gpu::hopper {

// Grid (heads, blocks of a head), all of which are on the device at once.
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(WholeGradientBlock<kDim, kTeams>::kThreads, 1)
    spread_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
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

  float* gradient = call.gradient + keys.unit * kStateSize<kDim>;
  add_over_grid<kDim, Block::kThreads>(sums,
                                       call.parts + (queries.slot - blockIdx.y) * kStateSize<kDim>,
                                       static_cast<unsigned>(queries.sequence.q_parts), gradient);
  find_key_gradients(
      call, keys, gradient, [](unsigned i) { return i; }, memory, turning, pass);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
