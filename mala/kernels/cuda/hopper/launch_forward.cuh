// Launches the passes of the forward on Hopper.
#pragma once

#include "mala/kernels/cuda/hopper/apply_queries.cuh"
#include "mala/kernels/cuda/hopper/spread_heads.cuh"
#include "mala/kernels/cuda/hopper/sum_keys.cuh"
#include "mala/kernels/cuda/hopper/whole_heads.cuh"
#include "mala/kernels/cuda/launch.cuh"

namespace mala::gpu {

template <int kDim, int kTeams>
void launch_hopper_sum_keys(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  with_hopper_kind<false>(call, [&](auto kind) {
    using Block = hopper::SumBlock<kDim, kTeams, decltype(kind)>;
    launch<hopper::sum_keys_kernel<kDim, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes, grid.cluster}, call);
  });
}

template <int kDim>
void launch_hopper_sum_keys(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  if (grid.teams == 1) return launch_hopper_sum_keys<kDim, 1>(on, call, grid);
  launch_hopper_sum_keys<kDim, hopper::kSumTeams<kDim>>(on, call, grid);
}

template <int kDim>
void launch_hopper_apply_queries(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  constexpr int kTeams = hopper::kApplyTeams<kDim>;
  auto run = [&](auto kind) {
    using Block = hopper::ApplyBlock<kDim, kTeams, decltype(kind)>;
    launch<hopper::apply_queries_kernel<kDim, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes}, call);
  };
  if (call.has_tail()) return with_hopper_kind<true>(call, run);
  with_hopper_kind<false>(call, run);
}

template <int kTeams>
void launch_hopper_whole_heads(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  auto run = [&](auto kind) {
    using Block = hopper::WholeBlock<64, kTeams, decltype(kind)>;
    launch<hopper::whole_heads_kernel<64, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes, grid.cluster}, call);
  };
  if (call.has_tail()) return with_hopper_kind<true>(call, run);
  with_hopper_kind<false>(call, run);
}

inline bool launch_hopper_spread_heads(Launcher& on, const Call<BFloat16>& call,
                                       const PassGrid& grid) {
  constexpr int kTeams = kWholeTeams;
  bool fit = false;
  auto run = [&](auto kind) {
    using Block = hopper::WholeBlock<64, kTeams, decltype(kind)>;
    fit = launch_together<hopper::spread_heads_kernel<64, kTeams, decltype(kind)>>(
        on, {dim3_of(grid), Block::kThreads, Block::kBytes}, call);
  };
  if (call.has_tail()) {
    with_hopper_kind<true>(call, run);
  } else {
    with_hopper_kind<false>(call, run);
  }
  return fit;
}

}  // namespace mala::gpu
