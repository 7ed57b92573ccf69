// Barriers in shared memory by which a block hands numbers to another one of its cluster.
#pragma once

#include "mala/kernels/cuda/tile.cuh"

namespace mala::gpu::hopper {

// The same place in another block of the cluster, as an address of shared memory.
__device__ __forceinline__ uint32_t address_in_block(uint32_t mine, unsigned other) {
  uint32_t there = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(mine), "r"(other));
#endif
  return there;
}

// A barrier in shared memory that writers of any block of the cluster arrive at, turn after turn,
// and what they wrote before is there when a turn is over. To the own block they write as always.
// What goes to another one tells the barrier itself that it has come: to wait for it before
// arriving would be to wait for whatever was stored, to global memory too.
struct Mailbox {
  static constexpr int kBytes = 8;
  uint32_t address;  // in the own block, or in the cluster

  // By one thread of the block, before the cluster's threads wait for each other.
  __device__ __forceinline__ void open(int writers) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(writers) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  // Until all writers have come for turn 0, 1, 2, ...: no thread may be a whole turn behind
  // another.
  __device__ __forceinline__ void wait(int turn) const {
#if __CUDA_ARCH__ >= 900
    uint32_t come = 0;
    while (!come) {
      asm volatile(
          "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
          "selp.u32 %0, 1, 0, p;}"
          : "=r"(come)
          : "r"(address), "r"(turn & 1)
          : "memory");
    }
#endif
  }
  // With so many bytes that went to another block.
  template <bool kFar>
  __device__ __forceinline__ void arrive(int bytes) const {
#if __CUDA_ARCH__ >= 900
    if constexpr (kFar) {
      asm volatile(
          "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(
              address),
          "r"(bytes)
          : "memory");
    } else {
      asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(address)
                   : "memory");
    }
#endif
  }

  template <bool kFar>
  __device__ __forceinline__ void store(uint32_t to, float x) const {
#if __CUDA_ARCH__ >= 900
    if constexpr (kFar) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
              to),
          "f"(x), "r"(address)
          : "memory");
    } else {
      store_shared_float(to, x);
    }
#endif
  }
  template <bool kFar>
  __device__ __forceinline__ void store(uint32_t to, float2 x) const {
#if __CUDA_ARCH__ >= 900
    if constexpr (kFar) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1,%2}, "
          "[%3];" ::"r"(to),
          "f"(x.x), "f"(x.y), "r"(address)
          : "memory");
    } else {
      store_shared_two(to, x);
    }
#endif
  }
  template <bool kFar>
  __device__ __forceinline__ void store(uint32_t to, uint4 x) const {
#if __CUDA_ARCH__ >= 900
    if constexpr (kFar) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, "
          "[%5];" ::"r"(to),
          "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(address)
          : "memory");
    } else {
      store_shared(to, x);
    }
#endif
  }
};

}  // namespace mala::gpu::hopper
