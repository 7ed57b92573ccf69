// Launches the passes of the backward.
#pragma once

#include "mala/kernels/cuda/key_gradients.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/query_gradients.cuh"

namespace mala::gpu {

template <typename T>
void launch_query_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const bool has_tail = call.inputs.local.data || call.inputs.gate.data;
  with_dim<T>(padded, [&](auto dim) {
    const LaunchSize size{dim3_of(grid), Shape<dim()>::kThreads,
                          QueryGradientMemory<T, dim()>::kBytes};
    if constexpr (kSpecial<T, dim()>) {
      if (!has_tail) {
        return with_turns<T, dim()>(call, [&](auto turns) {
          launch(on, query_gradients_kernel<T, dim(), turns(), false>, size, call);
        });
      }
    }
    launch(on, query_gradients_kernel<T, dim(), true, true>, size, call);
  });
}

template <typename T>
void launch_key_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  with_dim<T>(padded, [&](auto dim) {
    with_turns<T, dim()>(call, [&](auto turns) {
      launch(on, key_gradients_kernel<T, dim(), turns()>,
             {dim3_of(grid), Shape<dim()>::kThreads, KeyGradientMemory<T, dim()>::kBytes}, call);
    });
  });
}

template <typename T>
void launch_prepare_state_gradient(Launcher& on, const Call<T>& call, int padded, int64_t units) {
  with_dim<T>(padded, [&](auto dim) {
    // Smaller heads make theirs in shared memory.
    if constexpr (!kSharedRight<T, dim()>) {
      launch(on, prepare_state_gradient_kernel<T, dim()>,
             {dim3(static_cast<unsigned>(units)), 256, 0}, call);
    }
  });
}

}  // namespace mala::gpu
