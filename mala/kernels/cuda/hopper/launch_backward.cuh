// Launches the passes of the backward on Hopper.
#pragma once

#include "mala/kernels/cuda/hopper/spread_gradients.cuh"
#include "mala/kernels/cuda/hopper/whole_gradients.cuh"
#include "mala/kernels/cuda/launch.cuh"

namespace mala::gpu {

template <int kDim, int kTeams>
void launch_hopper_query_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  using Block = hopper::QueryGradientBlock<kDim, kTeams>;
  with_hopper_kind<false>(call, [&](auto kind) {
    launch<hopper::query_gradients_kernel<kDim, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes, grid.cluster}, call);
  });
}
template <int kDim>
void launch_hopper_query_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  constexpr int kTeams = teams_on_hopper(kDim).query_gradients;
  if (grid.teams == 1) return launch_hopper_query_gradients<kDim, 1>(on, call, grid);
  launch_hopper_query_gradients<kDim, kTeams>(on, call, grid);
}

template <int kDim, int kTeams>
void launch_hopper_key_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  using Block = hopper::KeyGradientBlock<kDim, kTeams>;
  with_hopper_kind<false>(call, [&](auto kind) {
    launch<hopper::key_gradients_kernel<kDim, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes}, call);
  });
}
template <int kDim>
void launch_hopper_key_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  if constexpr (kDim == 64) {
    if (grid.teams == 1) return launch_hopper_key_gradients<kDim, 1>(on, call, grid);
  }
  launch_hopper_key_gradients<kDim, teams_on_hopper(kDim).key_gradients>(on, call, grid);
}

template <int kTeams>
void launch_hopper_whole_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  using Block = hopper::WholeGradientBlock<64, kTeams>;
  with_hopper_kind<false>(call, [&](auto kind) {
    launch<hopper::whole_gradients_kernel<64, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes, grid.cluster}, call);
  });
}

inline bool launch_hopper_spread_gradients(Launcher& on, const Call<BFloat16>& call,
                                           const PassGrid& grid) {
  constexpr int kTeams = kWholeTeamsOfGradients;
  using Block = hopper::WholeGradientBlock<64, kTeams>;
  bool fit = false;
  with_hopper_kind<false>(call, [&](auto kind) {
    fit = launch_together<hopper::spread_gradients_kernel<64, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes}, call);
  });
  return fit;
}

}  // namespace mala::gpu
