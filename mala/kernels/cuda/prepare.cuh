// Matrices of the heads in global memory, for passes whose shared memory is full.
#pragma once

#include "mala/kernels/cuda/head.cuh"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu {

// The matrices of a unit where they are in global memory: S_c, and its transpose.
template <typename T, int kDim>
__device__ __forceinline__ std::byte* global_right(const Call<T>& call, int64_t unit, int which) {
  return call.operands + (2 * unit + which) * int64_t{Right<T, kDim>::kBytes};
}

// Grid (units): S_c and its transpose into global memory, for passes whose shared memory is full.
template <typename T, int kDim>
__global__ void __launch_bounds__(256) prepare_right_kernel(const __grid_constant__ Call<T> call) {
  __shared__ __align__(16) std::byte memory[QueryVectors<kDim>::kBytes];
  wait_for_previous();
  let_next_begin();
  const int64_t unit = blockIdx.x;
  const float* state = call.state + unit * call.layout.size();
  const QueryVectors<kDim> head(memory);
  const Right<T, kDim> right(global_right<T, kDim>(call, unit, 0)),
      transposed(global_right<T, kDim>(call, unit, 1));
  fill_vectors(call, state, head_scales(call, call.sequence(unit / call.kv_heads).k_count), head);
  fill_centred(state, call.layout, head, right);
  fill_centred_transposed(state, call.layout, head, transposed);
}

// dS and its transpose, in shared memory or, from a kernel of its own, in global memory.
template <typename T, int kDim>
__device__ __forceinline__ void fill_state_gradient(const Call<T>& call, const float* sums,
                                                    const Right<T, kDim>& right,
                                                    const Right<T, kDim>& transposed) {
  fill_right(right, [&](int row, int column) { return element(sums, call.layout, row, column); });
  fill_right(transposed,
             [&](int row, int column) { return element(sums, call.layout, column, row); });
}

template <typename T, int kDim>
__global__ void __launch_bounds__(256)
    prepare_state_gradient_kernel(const __grid_constant__ Call<T> call) {
  wait_for_previous();
  let_next_begin();
  fill_state_gradient(call, call.gradient + blockIdx.x * call.layout.size(),
                      Right<T, kDim>(global_right<T, kDim>(call, blockIdx.x, 0)),
                      Right<T, kDim>(global_right<T, kDim>(call, blockIdx.x, 1)));
}

}  // namespace mala::gpu
