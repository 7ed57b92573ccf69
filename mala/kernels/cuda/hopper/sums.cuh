// Sums of a head in shared memory, on their way from registers to a state.
#pragma once

#include "mala/kernels/cuda/hopper/cluster.cuh"
#include "mala/kernels/cuda/hopper/share.cuh"
#include "mala/kernels/cuda/hopper/teams.cuh"

namespace mala::gpu::hopper {

// Floats of a state: the matrix and three vectors. And its bytes, with what is left until the next
// panel.
template <int kDim>
constexpr int kStateSize = kDim* kDim + 3 * kDim;
template <int kDim>
constexpr int kStateBytes = (4 * kStateSize<kDim> + kAlign - 1) / kAlign* kAlign;

// Where float `i` of a state lies: eights of a row change places from row to row, so that lanes
// which write the same columns of neighbouring rows, or of every second one, do not get into each
// other's way.
template <int kDim>
__device__ __forceinline__ unsigned swapped(unsigned i) {
  const unsigned row = i / kDim;
  return i < kDim * kDim ? i ^ ((row + row / 4) % 4 << 3) : i;
}

// Adds the sums of the teams of a block, which lie `stride` floats apart, to those of the first.
template <int kDim, int kThreads>
__device__ __forceinline__ void add_teams(float* sums, int teams, int stride) {
  __syncthreads();
  // Once more: where a team without tiles has come here past others that still wait for each other,
  // compute-sanitizer's racecheck does not count the first.
  asm volatile("bar.sync %0, %1;" ::"r"(0), "n"(kThreads) : "memory");
  if (teams == 1) return;
  share_all<kStateSize<kDim> / 4, kThreads>([&](unsigned four) {
    const unsigned i = 4 * four;
    Four sum = load_four(sums + i);
#pragma unroll 4
    for (int team = 1; team < teams; ++team) {
      add_scaled(sum, 1.0f, load_four(sums + team * stride + i));
    }
    store_four(sums + i, sum);
  });
  __syncthreads();
}

// The sums of all blocks of a cluster, in the order of their ranks: each block has a share of them,
// and hands it to give(place, four). Afterwards others may still be reading; see Cluster::sync().
template <int kDim, int kThreads, class Give>
__device__ __forceinline__ void add_blocks(const Cluster& cluster, const float* sums, Give give) {
  if (cluster.size == 1) {
    share_all<kStateSize<kDim> / 4, kThreads>(
        [&](unsigned four) { give(4 * four, load_four(sums + 4 * four)); });
    return;
  }
  cluster.sync();
  const unsigned step = 4 * kThreads * cluster.size;
  for (unsigned i = 4 * (cluster.rank * kThreads + threadIdx.x); i < kStateSize<kDim>; i += step) {
    Four sum = {};
#pragma unroll 8
    for (unsigned other = 0; other < cluster.size; ++other) {
      add_scaled(sum, 1.0f, load_four(cluster.in_block(sums + i, other)));
    }
    give(i, sum);
  }
}

// The same, given to all of them: they lie `apart` floats behind their own sums. A block without
// others has them where they are. There is one way out: with two, ptxas does not know any more what
// is the same for all threads, in the loops before it either.
template <int kDim, int kThreads>
__device__ __forceinline__ float* add_cluster(const Cluster& cluster, float* sums, int apart) {
  const bool is_alone = cluster.size == 1;
  float* total = sums + (is_alone ? 0 : apart);
  if (!is_alone) {
    add_blocks<kDim, kThreads>(cluster, sums, [&](unsigned i, const Four& four) {
      for (unsigned other = 0; other < cluster.size; ++other) {
        store_four(cluster.in_block(total + i, other), four);
      }
    });
    cluster.sync();
  }
  return total;
}

// A block's share of sums that all blocks of a cluster have, as a state.
template <int kDim, int kThreads>
__device__ __forceinline__ void write_share(const Cluster& cluster, const float* sums, float* to) {
  const unsigned step = 4 * kThreads * cluster.size;
  for (unsigned i = 4 * (cluster.rank * kThreads + threadIdx.x); i < kStateSize<kDim>; i += step) {
    store_four(to + swapped<kDim>(i), load_four(sums + i));
  }
}

// The sums of a cluster to where those of its parts would be.
template <int kDim, int kThreads>
__device__ __forceinline__ void write_cluster_sums(const float* sums, float* parts, int64_t slot) {
  const Cluster cluster;
  float* to = parts + slot / cluster.size * kStateSize<kDim>;
  add_blocks<kDim, kThreads>(cluster, sums, [&](unsigned i, const Four& four) {
    store_four(to + swapped<kDim>(i), four);
  });
  if (cluster.size > 1) cluster.sync();  // nobody leaves while others read
}

}  // namespace mala::gpu::hopper
