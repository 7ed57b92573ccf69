// The sweeps of the causal form by warpgroups, for BFloat16 tensors.
#include "mala/kernels/cuda/hopper/causal_forward.cuh"
#include "mala/kernels/cuda/hopper/causal_key_gradients.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/launch_causal.h"

namespace mala::gpu::hopper {
namespace {

// Calls run(Kind), without a tail.
template <class Run>
void with_turns(const Call<BFloat16>& call, Run run) {
  if (call.q_turning.turns) return run(Kind<Turned::kLine, false, true>{});
  run(Kind<Turned::kNot, false, true>{});
}

// As many teams as there are parts.
template <auto kKernel>
void launch_teams(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid, int teams,
                  int shared_bytes) {
  const LaunchSize size{dim3(static_cast<unsigned>(divide_up(grid.heads * grid.parts, teams))),
                        teams * kGroupThreads, shared_bytes};
  launch<kKernel>(on, size, call, static_cast<unsigned>(grid.heads),
                  static_cast<unsigned>(grid.parts));
}

// As few teams in a block as fill the device.
template <bool kOfQueries>
void launch_sums(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  const int64_t wanted = divide_up(grid.heads * grid.parts, on.device().multiprocessors);
  const int teams = static_cast<int>(std::min<int64_t>(wanted, kMostSumTeams));
  with_turns(call, [&](auto kind) {
    using Kind = decltype(kind);
    launch_teams<causal_sums_kernel<Kind, kOfQueries>>(on, call, grid, teams,
                                                       SumBlockOfSweeps<Kind>::kBytes);
  });
}

}  // namespace

void launch_causal_sum_keys(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  launch_sums<false>(on, call, grid);
}
void launch_causal_sum_queries(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  launch_sums<true>(on, call, grid);
}

void launch_causal_forward(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  auto run = [&](auto kind) {
    using Kind = decltype(kind);
    launch<causal_forward_kernel<Kind>>(
        on, {dim3_of(grid), kSweepTeams * kGroupThreads, SweepBlock<Kind>::kBytes, grid.blocks},
        call);
  };
  const bool turns = call.q_turning.turns, tail = call.has_tail();
  if (turns && tail) return run(Kind<Turned::kLine, true, true>{});
  if (turns) return run(Kind<Turned::kLine, false, true>{});
  run(Kind<Turned::kNot, true, true>{});
}

void launch_causal_query_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  with_turns(call, [&](auto kind) {
    using Kind = decltype(kind);
    launch_teams<causal_query_gradients_kernel<Kind>>(on, call, grid, kGradientTeams,
                                                      QueryGradientSweepBlock<Kind>::kBytes);
  });
}
void launch_causal_key_gradients(Launcher& on, const Call<BFloat16>& call, const PassGrid& grid) {
  with_turns(call, [&](auto kind) {
    using Kind = decltype(kind);
    launch_teams<causal_key_gradients_kernel<Kind>>(on, call, grid, kGradientTeams,
                                                    KeyGradientSweepBlock<Kind>::kBytes);
  });
}

}  // namespace mala::gpu::hopper
