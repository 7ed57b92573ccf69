// Launches the passes of the backward.
#pragma once

#include "mala/kernels/cuda/hopper/key_gradients.cuh"
#include "mala/kernels/cuda/hopper/query_gradients.cuh"
#include "mala/kernels/cuda/key_gradients.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/query_gradients.cuh"

namespace mala::gpu {

template <typename T>
void launch_query_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const Vectors& has = call.vectors;
  const bool local = call.inputs.local.data, gate = call.inputs.gate.data;
  const bool usual = is_usual(
      call.feature, {has.q, has.out_gradient, has.d_query, !local || (has.local && has.d_local),
                     !gate || (has.gate && has.d_gate)});
  with_dim<T>(padded, [&](auto dim) {
    auto run = [&](auto kind) {
      if constexpr (kOnHopper<T, decltype(kind)> && dim() <= 128 && !kind.kTail) {
        auto run_with = [&](auto count) {
          using Block = hopper::QueryGradientBlock<dim(), count()>;
          launch<hopper::query_gradients_kernel<dim(), count(), HopperKind<decltype(kind)>>>(
              on, {dim3_of(grid), Block::kThreads, Block::kBytes + hopper::kAlign, grid.cluster},
              call);
        };
        constexpr int kTeams = teams_on_hopper(dim()).query_gradients;
        if (grid.cluster > 0 && grid.teams == 1) return run_with(std::integral_constant<int, 1>{});
        if (grid.cluster > 0) return run_with(std::integral_constant<int, kTeams>{});
      }
      launch<query_gradients_kernel<T, dim(), decltype(kind)>>(
          on, {dim3_of(grid), SumShape<T, dim()>::kThreads, QueryGradientMemory<T, dim()>::kBytes},
          call);
    };
    if (local || gate) return with_kind<T, dim(), true>(call, usual, run);
    with_kind<T, dim(), false>(call, usual, run);
  });
}

template <typename T>
void launch_key_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const Vectors& has = call.vectors;
  const bool usual = is_usual(call.feature, {has.k, has.v, has.d_key, has.d_value});
  with_dim<T>(padded, [&](auto dim) {
    with_kind<T, dim(), false>(call, usual, [&](auto kind) {
      if constexpr (kOnHopper<T, decltype(kind)>) {
        auto run_with = [&](auto count) {
          using Block = hopper::KeyGradientBlock<dim(), count()>;
          launch<hopper::key_gradients_kernel<dim(), count(), HopperKind<decltype(kind)>>>(
              on, {dim3_of(grid), Block::kThreads, Block::kBytes + hopper::kAlign}, call);
        };
        if constexpr (dim() == 64) {
          if (grid.cluster > 0 && grid.teams == 1) {
            return run_with(std::integral_constant<int, 1>{});
          }
        }
        if (grid.cluster > 0) {
          constexpr int kTeams = teams_on_hopper(dim()).key_gradients;
          return run_with(std::integral_constant<int, kTeams>{});
        }
      }
      launch<key_gradients_kernel<T, dim(), decltype(kind)>>(
          on, {dim3_of(grid), RowShape<T, dim(), 2>::kThreads, KeyGradientMemory<T, dim()>::kBytes},
          call);
    });
  });
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
