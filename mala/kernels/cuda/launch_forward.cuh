// Launches the passes of the forward.
#pragma once

#include "mala/kernels/cuda/apply_queries.cuh"
#include "mala/kernels/cuda/hopper/launch_forward.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/sum_keys.cuh"

namespace mala::gpu {

template <typename T>
void launch_sum_keys(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const bool usual =
      !on.device().has_wgmma && is_usual(call.feature, {call.vectors.k, call.vectors.v});
  with_dim<T>(padded, [&](auto dim) {
    if constexpr (kOnHopper<T, dim()>) {
      if (grid.cluster > 0) return launch_hopper_sum_keys<dim()>(on, call, grid);
    }
    with_kind<T, dim(), false>(call, usual, [&](auto kind) {
      launch<sum_keys_kernel<T, dim(), decltype(kind)>>(
          on,
          {dim3_of(grid), SumShape<T, dim()>::kThreads,
           KeySumMemory<T, dim()>::bytes(on.device().shared_bytes)},
          call);
    });
  });
}

template <typename T>
void launch_apply_queries(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const Vectors& has = call.vectors;
  const bool usual = !on.device().has_wgmma &&
                     is_usual(call.feature, {has.q, has.out, has.local || !call.inputs.local.data,
                                             has.gate || !call.inputs.gate.data});
  with_dim<T>(padded, [&](auto dim) {
    if constexpr (kOnHopper<T, dim()>) {
      if (grid.cluster > 0) return launch_hopper_apply_queries<dim()>(on, call, grid);
    }
    with_kind<T, dim(), true>(call, usual, [&](auto kind) {
      launch<apply_queries_kernel<T, dim(), decltype(kind)>>(
          on,
          {dim3_of(grid), RowShape<T, dim(), 1>::kThreads,
           ApplyMemory<T, dim()>::Staged::bytes(on.device().shared_bytes)},
          call);
    });
  });
}

template <typename T>
void launch_whole_heads(Launcher& on, const Call<T>& call, const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) {
    if (grid.teams == 1) return launch_hopper_whole_heads<1>(on, call, grid);
    launch_hopper_whole_heads<kWholeTeams>(on, call, grid);
  }
}

template <typename T>
bool launch_spread_heads(Launcher& on, const Call<T>& call, const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) return launch_hopper_spread_heads(on, call, grid);
  return false;
}

template <typename T>
void launch_prepare_right(Launcher& on, const Call<T>& call, int padded, int64_t units) {
  with_dim<T>(padded, [&](auto dim) {
    launch<prepare_right_kernel<T, dim()>>(on, {dim3(static_cast<unsigned>(units)), 256, 0}, call);
  });
}

}  // namespace mala::gpu
