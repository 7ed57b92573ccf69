// Launches the passes of the backward.
#pragma once

#include "mala/kernels/cuda/hopper/launch_backward.cuh"
#include "mala/kernels/cuda/key_gradients.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/query_gradients.cuh"

namespace mala::gpu {

template <typename T>
void launch_query_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const Vectors& has = call.vectors;
  const bool local = call.inputs.local.data, gate = call.inputs.gate.data;
  const bool usual =
      !on.device().has_wgmma && is_usual(call.feature, {has.q, has.out_gradient, has.d_query,
                                                        !local || (has.local && has.d_local),
                                                        !gate || (has.gate && has.d_gate)});
  with_dim<T>(padded, [&](auto dim) {
    if constexpr (kOnHopper<T, dim()>) {
      if (grid.cluster > 0) return launch_hopper_query_gradients<dim()>(on, call, grid);
    }
    with_kind<T, dim(), true>(call, usual, [&](auto kind) {
      launch<query_gradients_kernel<T, dim(), decltype(kind)>>(
          on,
          {dim3_of(grid), SumShape<T, dim()>::kThreads,
           QueryGradientMemory<T, dim()>::Staged::bytes(on.device().shared_bytes)},
          call);
    });
  });
}

template <typename T>
void launch_key_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const Vectors& has = call.vectors;
  const bool usual =
      !on.device().has_wgmma && is_usual(call.feature, {has.k, has.v, has.d_key, has.d_value});
  with_dim<T>(padded, [&](auto dim) {
    if constexpr (kOnHopper<T, dim()>) {
      if (grid.cluster > 0) return launch_hopper_key_gradients<dim()>(on, call, grid);
    }
    with_kind<T, dim(), false>(call, usual, [&](auto kind) {
      launch<key_gradients_kernel<T, dim(), decltype(kind)>>(
          on,
          {dim3_of(grid), RowShape<T, dim(), 2>::kThreads,
           KeyGradientMemory<T, dim()>::Staged::bytes(on.device().shared_bytes)},
          call);
    });
  });
}

template <typename T>
void launch_whole_gradients(Launcher& on, const Call<T>& call, const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) {
    if (grid.teams == 1) return launch_hopper_whole_gradients<1>(on, call, grid);
    launch_hopper_whole_gradients<kWholeTeamsOfGradients>(on, call, grid);
  }
}

template <typename T>
bool launch_spread_gradients(Launcher& on, const Call<T>& call, const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) return launch_hopper_spread_gradients(on, call, grid);
  return false;
}

template <typename T>
void launch_prepare_state_gradient(Launcher& on, const Call<T>& call, int padded, int64_t units) {
  with_dim<T>(padded, [&](auto dim) {
    // Smaller heads make theirs in shared memory.
    if constexpr (!kSharedRight<T, dim()>) {
      launch<prepare_state_gradient_kernel<T, dim()>>(
          on, {dim3(static_cast<unsigned>(units)), 256, 0}, call);
    }
  });
}

}  // namespace mala::gpu
