// Sums of a head that has more blocks than a cluster, all of which run at once.
#pragma once

#include <cooperative_groups.h>

#include "mala/kernels/cuda/hopper/sums.cuh"

namespace mala::gpu::hopper {

// The sums of a block, as a state.
template <int kDim, int kThreads>
__device__ __forceinline__ void write_part(const float* sums, float* to) {
  share_all<kStateSize<kDim> / 4, kThreads>(
      [&](unsigned four) { store_four(to + swapped<kDim>(4 * four), load_four(sums + 4 * four)); });
}

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

// Adds the sums of all blocks of a head, which are the rows of the grid's second dimension. The
// first `count` blocks have some; `parts` has room for them, and `state` for the result, which
// everyone may read.
template <int kDim, int kThreads>
__device__ __forceinline__ void add_over_grid(const float* sums, float* parts, unsigned count,
                                              float* state) {
  const auto all = cooperative_groups::this_grid();
  if (blockIdx.y < count) {
    write_part<kDim, kThreads>(sums, parts + int64_t{blockIdx.y} * kStateSize<kDim>);
  }
  all.sync();
  add_share<kDim, kThreads>(parts, count, blockIdx.y, gridDim.y, state);
  all.sync();
}

}  // namespace mala::gpu::hopper
