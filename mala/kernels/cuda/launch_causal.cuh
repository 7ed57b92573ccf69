// Launches the sweeps of the causal form.
#pragma once

#include "mala/kernels/cuda/causal_forward.cuh"
#include "mala/kernels/cuda/causal_key_gradients.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/launch_causal.h"

namespace mala::gpu {

// Calls run(kDim, Kind). Few are compiled: text is mostly bfloat16 with RoPE along a line.
template <typename T, class Run>
void with_sweep(const Call<T>& call, int padded, bool usual, Run&& run) {
  using Any = Kind<Turned::kSomehow, true, false>;
  using Line = Kind<Turned::kLine, true, true>;
  if constexpr (std::is_same_v<T, BFloat16>) {
    usual = usual && padded == 64 && call.layout.dim == 64 && call.layout.value_dim == 64;
    if (usual && how_turned(call) == Turned::kLine) {
      return run(std::integral_constant<int, 64>{}, Line{});
    }
  }
  if (padded == 64) return run(std::integral_constant<int, 64>{}, Any{});
  if (padded <= 128) return run(std::integral_constant<int, 128>{}, Any{});
  run(std::integral_constant<int, 256>{}, Any{});
}

template <typename T, int kDim>
LaunchSize sweep_size(const Launcher& on, const PassGrid& grid) {
  return {dim3_of(grid), SweepShape<kDim>::kThreads,
          SweepMemory<T, kDim>::bytes(on.device().shared_bytes)};
}

template <typename T>
bool tail_has_vectors(const Call<T>& call) {
  return (call.vectors.local || !call.inputs.local.data) &&
         (call.vectors.gate || !call.inputs.gate.data);
}

template <typename T>
void launch_causal_sum_keys(Launcher& on, const Call<T>& call, int padded, const PassGrid& keys,
                            const PassGrid& queries) {
  if constexpr (kOnHopper<T, 64>) {
    if (queries.cluster > 0) return hopper::launch_causal_sum_keys(on, call, keys);
  }
  launch_sum_keys(on, call, padded, keys);
}

template <typename T>
void launch_causal_forward(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) {
    if (grid.cluster > 0) return hopper::launch_causal_forward(on, call, grid);
  }
  const Vectors& has = call.vectors;
  const bool usual = is_usual(call.feature, {has.q, has.k, has.v, has.out, tail_has_vectors(call)});
  with_sweep(call, padded, usual, [&](auto dim, auto kind) {
    launch<causal_forward_kernel<T, dim(), decltype(kind)>>(on, sweep_size<T, dim()>(on, grid),
                                                            call);
  });
}

template <typename T>
bool backward_is_usual(const Call<T>& call) {
  const Vectors& has = call.vectors;
  return is_usual(call.feature,
                  {has.q, has.k, has.v, has.out_gradient, has.d_query, has.d_key, has.d_value,
                   has.d_local || !call.gradients.local.data, tail_has_vectors(call)});
}

template <typename T>
void launch_causal_query_gradients(Launcher& on, const Call<T>& call, int padded,
                                   const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) {
    if (grid.cluster > 0) return hopper::launch_causal_query_gradients(on, call, grid);
  }
  with_sweep(call, padded, backward_is_usual(call), [&](auto dim, auto kind) {
    launch<causal_query_gradients_kernel<T, dim(), decltype(kind)>>(
        on, sweep_size<T, dim()>(on, grid), call);
  });
}

template <typename T>
void launch_causal_sum_queries(Launcher& on, const Call<T>& call, int padded,
                               const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) {
    if (grid.cluster > 0) return hopper::launch_causal_sum_queries(on, call, grid);
  }
  with_sweep(call, padded, backward_is_usual(call), [&](auto dim, auto kind) {
    launch<causal_sum_queries_kernel<T, dim(), decltype(kind)>>(on, sweep_size<T, dim()>(on, grid),
                                                                call);
  });
}

template <typename T>
void launch_causal_key_gradients(Launcher& on, const Call<T>& call, int padded,
                                 const PassGrid& grid) {
  if constexpr (kOnHopper<T, 64>) {
    if (grid.cluster > 0) return hopper::launch_causal_key_gradients(on, call, grid);
  }
  with_sweep(call, padded, backward_is_usual(call), [&](auto dim, auto kind) {
    launch<causal_key_gradients_kernel<T, dim(), decltype(kind)>>(
        on, sweep_size<T, dim()>(on, grid), call);
  });
}

}  // namespace mala::gpu
