// How many tiles of a pass are in shared memory at a time: what the device has room for.
#pragma once

#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {

// Of shared memory, what the kernel was launched with.
__device__ __forceinline__ int launched_bytes() {
  int bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

// Two stages behind what is fixed, where they fit: the next tile is on its way while this one is
// worked on. Where every device or none has the room, kernels do not ask.
template <int kFixedBytes, int kStageBytes>
struct Stages {
  static constexpr int kOne = kFixedBytes + kStageBytes, kTwo = kOne + kStageBytes;
  static_assert(kOne <= kSharedBytes);

  static constexpr int bytes(int of_device) { return kTwo <= of_device ? kTwo : kOne; }

  static __device__ __forceinline__ bool are_two() {
    if constexpr (kTwo <= kLeastSharedBytes) return true;
    if constexpr (kTwo > kSharedBytes) return false;
    return launched_bytes() >= kTwo;
  }
  // Bytes from the first to that of a tile.
  static __device__ __forceinline__ int offset(int tile) {
    return are_two() ? tile % 2 * kStageBytes : 0;
  }
};

}  // namespace mala::gpu
