// Clusters: blocks of one head that reach each other's shared memory.
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

}  // namespace mala::gpu::hopper
