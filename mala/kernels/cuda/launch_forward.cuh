// Launches the passes of the forward.
#pragma once

#include "mala/kernels/cuda/apply_queries.cuh"
#include "mala/kernels/cuda/hopper/apply_queries.cuh"
#include "mala/kernels/cuda/hopper/sum_keys.cuh"
#include "mala/kernels/cuda/hopper/whole_heads.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/sum_keys.cuh"

namespace mala::gpu {

template <typename T>
void launch_sum_keys(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const bool usual = is_usual(call.feature, {call.vectors.k, call.vectors.v});
  with_dim<T>(padded, [&](auto dim) {
    with_kind<T, dim(), false>(call, usual, [&](auto kind) {
      if constexpr (kOnHopper<T, decltype(kind)>) {
        constexpr int kTeams = hopper::kSumTeams<dim()>;
        constexpr int kBytes =
            hopper::SumBlock<dim(), kTeams, HopperKind<decltype(kind)>>::kBytes + hopper::kAlign;
        constexpr int kThreads = kTeams * hopper::kSumThreads<dim()>;
        if (grid.cluster > 0) {
          return launch<hopper::sum_keys_kernel<dim(), kTeams, HopperKind<decltype(kind)>>>(
              on, {dim3_of(grid), kThreads, kBytes, grid.cluster}, call);
        }
      }
      launch<sum_keys_kernel<T, dim(), decltype(kind)>>(
          on, {dim3_of(grid), SumShape<T, dim()>::kThreads, KeySumMemory<T, dim()>::kBytes}, call);
    });
  });
}

template <typename T>
void launch_apply_queries(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  const Vectors& has = call.vectors;
  const bool tail = call.inputs.local.data || call.inputs.gate.data;
  const bool usual = is_usual(call.feature, {has.q, has.out, has.local || !call.inputs.local.data,
                                             has.gate || !call.inputs.gate.data});
  with_dim<T>(padded, [&](auto dim) {
    auto run = [&](auto kind) {
      if constexpr (kOnHopper<T, decltype(kind)>) {
        constexpr int kTeams = hopper::kApplyTeams<dim()>;
        constexpr int kBytes =
            hopper::ApplyBlock<dim(), kTeams, HopperKind<decltype(kind)>>::kBytes + hopper::kAlign;
        if (grid.cluster > 0) {
          return launch<hopper::apply_queries_kernel<dim(), kTeams, HopperKind<decltype(kind)>>>(
              on, {dim3_of(grid), kTeams * hopper::kGroupThreads, kBytes}, call);
        }
      }
      launch<apply_queries_kernel<T, dim(), decltype(kind)>>(
          on, {dim3_of(grid), RowShape<T, dim(), 1>::kThreads, ApplyMemory<T, dim()>::kBytes},
          call);
    };
    if (tail) return with_kind<T, dim(), true>(call, usual, run);
    with_kind<T, dim(), false>(call, usual, run);
  });
}

template <typename T>
void launch_whole_heads(Launcher& on, const Call<T>& call, const PassGrid& grid) {
  auto run = [&](auto kind) {
    if constexpr (kOnHopper<T, decltype(kind)>) {
      auto run_with = [&](auto count) {
        constexpr int kTeams = count();
        constexpr int kBytes =
            hopper::WholeBlock<64, kTeams, HopperKind<decltype(kind)>>::kBytes + hopper::kAlign;
        launch<hopper::whole_heads_kernel<64, kTeams, HopperKind<decltype(kind)>>>(
            on, {dim3_of(grid), kTeams * hopper::kGroupThreads, kBytes, grid.cluster}, call);
      };
      if (grid.teams == 1) return run_with(std::integral_constant<int, 1>{});
      run_with(std::integral_constant<int, 4>{});
    }
  };
  if (call.inputs.local.data || call.inputs.gate.data)
    return with_kind<T, 64, true>(call, true, run);
  with_kind<T, 64, false>(call, true, run);
}

template <typename T>
void launch_prepare_right(Launcher& on, const Call<T>& call, int padded, int64_t units) {
  with_dim<T>(padded, [&](auto dim) {
    launch<prepare_right_kernel<T, dim()>>(on, {dim3(static_cast<unsigned>(units)), 256, 0}, call);
  });
}

}  // namespace mala::gpu
