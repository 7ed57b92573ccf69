// What follows from the sums of a row of a product, once for the lanes that share it.
#pragma once

namespace mala::gpu::hopper {

// Four lanes share two rows. What follows from a row's sums is found by two of them: by the first
// two for the upper row, by the others for the lower one.
struct SharedRows {
  bool lower = threadIdx.x & 2;

  // The sum over all lanes of what they have of this lane's row.
  __device__ __forceinline__ float sum(float of_upper, float of_lower) const {
    const float mine = lower ? of_lower : of_upper, others = lower ? of_upper : of_lower;
    const float sum = mine + __shfl_xor_sync(~0u, others, 2);
    return sum + __shfl_xor_sync(~0u, sum, 1);
  }
  // What lanes found, of both rows.
  __device__ __forceinline__ void tell(float mine, float (&both)[2]) const {
    const float other = __shfl_xor_sync(~0u, mine, 2);
    both[0] = lower ? other : mine;
    both[1] = lower ? mine : other;
  }
};

}  // namespace mala::gpu::hopper
