// Launches the passes of the forward.
#pragma once

#include "mala/kernels/cuda/apply_queries.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/sum_keys.cuh"

namespace mala::gpu {

template <typename T>
void launch_sum_keys(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  with_dim<T>(padded, [&](auto dim) {
    with_turns<T, dim()>(call, [&](auto turns) {
      launch(on, sum_keys_kernel<T, dim(), turns()>,
             {dim3_of(grid), Shape<dim()>::kThreads, KeySumMemory<T, dim()>::kBytes}, call);
    });
  });
}

template <typename T>
void launch_apply_queries(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  with_dim<T>(padded, [&](auto dim) {
    with_turns<T, dim()>(call, [&](auto turns) {
      launch(on, apply_queries_kernel<T, dim(), turns()>,
             {dim3_of(grid), Shape<dim()>::kThreads, ApplyMemory<T, dim()>::kBytes}, call);
    });
  });
}

template <typename T>
void launch_prepare_right(Launcher& on, const Call<T>& call, int padded, int64_t units) {
  with_dim<T>(padded, [&](auto dim) {
    launch(on, prepare_right_kernel<T, dim()>, {dim3(static_cast<unsigned>(units)), 256, 0}, call);
  });
}

}  // namespace mala::gpu
