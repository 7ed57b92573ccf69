// The passes of the bidirectional operator one after the other, as whole calls and their halves
// launch them.
#pragma once

#include "mala/kernels/cuda/plan.h"
#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {

// Blocks that share the values of a head in sums over tokens.
template <typename T>
int64_t chunks(const Plan<T>& plan) {
  const int64_t chunk =
      with_dim<T>(plan.padded, [](auto dim) -> int64_t { return SumShape<T, dim()>::kChunk; });
  return divide_up(plan.call.layout.value_dim, chunk);
}

// Keys into plan.call.state.
template <typename T>
void run_sum_keys(Launcher& on, const Plan<T>& plan) {
  Call<T> call = plan.call;
  // A head's only part, or cluster of parts, is its state.
  const bool whole = plan.most_key_parts == std::max(plan.key_cluster, 1);
  const PartSums sums{.parts = call.parts,
                      .sums = call.state,
                      .of_keys = true,
                      .units = plan.units(),
                      .most_parts = plan.most_key_parts,
                      .size = call.layout.size(),
                      .cluster = std::max(plan.key_cluster, 1)};
  if (whole) call.parts = call.state;
  PassGrid grid = plan.key_grid();
  grid.chunks = chunks(plan);
  launch_sum_keys(on, call, plan.padded, grid);
  if (!whole) launch_add_parts(on, call, sums);
}

// Queries through the state.
template <typename T>
void run_apply_queries(Launcher& on, const Plan<T>& plan) {
  if (plan.is_large()) launch_prepare_right(on, plan.call, plan.padded, plan.units());
  launch_apply_queries(on, plan.call, plan.padded, plan.query_grid());
}

// Both.
template <typename T>
void run_forward(Launcher& on, const Plan<T>& plan) {
  if (plan.has_spread_heads && launch_spread_heads(on, plan.call, plan.spread_grid())) return;
  if (plan.has_whole_heads) return launch_whole_heads(on, plan.call, plan.query_grid());
  run_sum_keys(on, plan);
  run_apply_queries(on, plan);
}

// The gradient that comes through a tail, for passes by warpgroups, which know of none: it lies
// where that of `local` goes. Without one, it lies where that of the gate goes, which is found
// last.
template <typename T>
HeadsView<const T> run_tail_gradients(Launcher& on, const Call<T>& call) {
  const HeadsView<T>& to = call.inputs.local.data ? call.gradients.local : call.gradients.gate;
  launch_tail_gradients(on, call, to);
  return to;
}

// The gradient of a gate is (attention + local) * dout: this forward's, which has another gate.
template <typename T>
Call<T> gate_gradient_call(Call<T> call) {
  call.inputs.gate = call.out_gradient;
  call.vectors.gate = call.vectors.out_gradient;
  call.out = call.gradients.gate;
  call.vectors.out = call.vectors.d_gate;
  return call;
}

// Gradients of queries and of a tail, and of the state into plan.call.gradient.
template <typename T>
void run_query_gradients(Launcher& on, const Plan<T>& plan) {
  Call<T> call = plan.call;
  const bool by_warpgroups = plan.query_cluster > 0, has_gate = call.inputs.gate.data;
  const bool whole = plan.most_query_parts == std::max(plan.query_cluster, 1) && call.group == 1;
  const PartSums sums{.parts = call.parts,
                      .sums = call.gradient,
                      .of_keys = false,
                      .units = plan.units(),
                      .most_parts = plan.most_query_parts * call.group,
                      .size = call.layout.size(),
                      .cluster = std::max(plan.query_cluster, 1)};
  if (whole) call.parts = call.gradient;
  if (by_warpgroups && call.has_tail()) call.out_gradient = run_tail_gradients(on, call);
  if (plan.is_large() || (has_gate && !by_warpgroups)) {
    launch_prepare_right(on, call, plan.padded, plan.units());
  }
  PassGrid grid = plan.query_grid();
  grid.chunks = chunks(plan);
  launch_query_gradients(on, call, plan.padded, grid);
  if (!whole) launch_add_parts(on, call, sums);
  if (by_warpgroups && has_gate) {
    launch_apply_queries(on, gate_gradient_call(plan.call), plan.padded, plan.query_grid());
  }
}

// Gradients of keys and values from that of the state.
template <typename T>
void run_key_gradients(Launcher& on, const Plan<T>& plan) {
  if (!plan.call.inputs.lengths.key_counts.empty()) launch_clear_uncounted(on, plan.call);
  if (plan.is_large()) launch_prepare_state_gradient(on, plan.call, plan.padded, plan.units());
  launch_key_gradients(on, plan.call, plan.padded, plan.key_grid());
}

// Both in one kernel. False where that cannot be.
template <typename T>
bool run_whole_gradients(Launcher& on, const Plan<T>& plan) {
  if (!plan.has_whole_heads && !plan.has_spread_heads) return false;
  Call<T> call = plan.call;
  if (call.has_tail()) call.out_gradient = run_tail_gradients(on, call);
  if (plan.has_whole_heads) {
    launch_whole_gradients(on, call, plan.query_grid());
  } else if (!launch_spread_gradients(on, call, plan.spread_grid())) {
    return false;
  }
  if (call.inputs.gate.data) {
    launch_apply_queries(on, gate_gradient_call(plan.call), plan.padded, plan.query_grid());
  }
  return true;
}

// Both.
template <typename T>
void run_backward(Launcher& on, const Plan<T>& plan) {
  if (run_whole_gradients(on, plan)) return;
  run_query_gradients(on, plan);
  run_key_gradients(on, plan);
}

}  // namespace mala::gpu
