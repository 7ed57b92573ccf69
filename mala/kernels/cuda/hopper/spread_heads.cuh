// The whole forward of few heads in one kernel on Hopper: each has many blocks, more than a cluster
// has, which all run at once and wait for each other twice: for the sums of all, and for the state.
#pragma once

#include <cooperative_groups.h>

#include "mala/kernels/cuda/hopper/whole_heads.cuh"

namespace mala::gpu::hopper {

// The share that block `rank` of `blocks` has of a state: added over all parts in double, and
// always in the same order. Neighbouring lanes share the parts of a four: as many as there are
// threads for, so that nobody waits for memory more than twice. That is the same number for all
// threads, and follows from how many blocks there are.
template <int kDim, unsigned kThreads>
__device__ __forceinline__ void add_share(const float* parts, unsigned count, unsigned rank,
                                          unsigned blocks, float* state) {
  constexpr unsigned kFours = kStateSize<kDim> / 4, kInFlight = 4;
  const unsigned share = (kFours + blocks - 1) / blocks, first = rank * share;
  const unsigned end = min(first + share, kFours);
  unsigned lanes = 1;
  while (lanes < 32 && 2 * lanes * share <= kThreads) lanes *= 2;
  const unsigned lane = threadIdx.x % lanes;
  // All lanes of a warp come along, since they wait for each other.
  for (unsigned begin = first; begin < end; begin += kThreads / lanes) {
    const unsigned four = begin + threadIdx.x / lanes;
    double sum[4] = {};
    for (unsigned part = lane; part < count; part += kInFlight * lanes) {
      Four x[kInFlight] = {};
#pragma unroll
      for (unsigned i = 0; i < kInFlight; ++i) {
        const unsigned at = part + i * lanes;
        if (four < end && at < count) x[i] = load_four(parts + at * kStateSize<kDim> + 4 * four);
      }
#pragma unroll
      for (unsigned i = 0; i < 4 * kInFlight; ++i) sum[i % 4] += x[i / 4].x[i % 4];
    }
    Four all;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      for (unsigned other = 1; other < lanes; other *= 2) {
        sum[i] += __shfl_xor_sync(~0u, sum[i], other);
      }
      all.x[i] = static_cast<float>(sum[i]);
    }
    if (four < end && lane == 0) store_four(state + 4 * four, all);
  }
}

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

  const auto all = cooperative_groups::this_grid();
  const int64_t size = kStateSize<kDim>, part = blockIdx.y;
  if (keys.first < keys.end) {  // else the head has no such part
    share_all<kStateSize<kDim> / 4, Block::kThreads>([&](unsigned four) {
      store_four(call.parts + keys.slot * size + swapped<kDim>(4 * four),
                 load_four(sums + 4 * four));
    });
  }
  all.sync();
  float* state = call.state + task.unit * size;
  add_share<kDim, Block::kThreads>(call.parts + (keys.slot - part) * size,
                                   static_cast<unsigned>(keys.sequence.k_parts), blockIdx.y,
                                   gridDim.y, state);
  all.sync();

  turn_as_queries<Block, kDim, Kind>(call, task, memory, turning);
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
