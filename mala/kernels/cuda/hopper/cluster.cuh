// Clusters: blocks of one head that reach each other's shared memory, and add their sums there.
#pragma once

#include "mala/kernels/cuda/eight.cuh"

namespace mala::gpu::hopper {

struct Cluster {
  unsigned rank, size;

  __device__ __forceinline__ Cluster() {
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  }
  // All threads of all blocks have come here, and see what the others wrote.
  __device__ __forceinline__ void sync() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  }
  // The same place in the shared memory of another block.
  template <typename T>
  __device__ __forceinline__ T* in_block(T* mine, unsigned other) const {
    uint64_t there = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.u64 %0, %1, %2;"
                 : "=l"(there)
                 : "l"(reinterpret_cast<uint64_t>(mine)), "r"(other));
#endif
    return reinterpret_cast<T*>(there);
  }
};

// Adds the sums of the teams of a block, which lie `stride` floats apart, to those of the first.
__device__ __forceinline__ void add_teams(float* sums, int size, int teams, int stride) {
  __syncthreads();
  for (int i = 4 * threadIdx.x; i < size && teams > 1; i += 4 * blockDim.x) {
    Four sum = load_four(sums + i);
    for (int team = 1; team < teams; ++team) {
      add_scaled(sum, 1.0f, load_four(sums + team * stride + i));
    }
    store_four(sums + i, sum);
  }
  __syncthreads();
}

// The sums of all blocks of a cluster, in the order of their ranks: each block has a share of them,
// and hands it to give(i, four). Afterwards others may still be reading; see sync().
template <class Give>
__device__ __forceinline__ void add_blocks(const Cluster& cluster, const float* sums, int size,
                                           Give give) {
  if (cluster.size > 1) cluster.sync();
  const int step = 4 * blockDim.x * cluster.size;
  for (int i = 4 * (cluster.rank * blockDim.x + threadIdx.x); i < size; i += step) {
    Four sum = load_four(cluster.in_block(sums + i, 0));
    for (unsigned other = 1; other < cluster.size; ++other) {
      add_scaled(sum, 1.0f, load_four(cluster.in_block(sums + i, other)));
    }
    give(i, sum);
  }
}

}  // namespace mala::gpu::hopper
