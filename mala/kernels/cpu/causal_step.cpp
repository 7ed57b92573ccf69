// One token for every sequence: each head's state is the work of one worker.
#include <algorithm>
#include <cmath>

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/causal.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/rule.h"

namespace mala::cpu {
namespace {

template <typename U>
auto members(const HeadsView<U>& view, int64_t batch, int64_t head) {
  using Void = std::conditional_t<std::is_const_v<U>, const void, void>;
  if (!view.data) return Members<Void>{};
  return Members<Void>{view.head(batch, head), view.head_stride};
}

// Heads of one sequence share its angles, so a task takes as many as leave each worker enough.
int64_t heads_of_a_task(int64_t sequences, int64_t heads) {
  const int64_t tasks_wanted = sequences >= max_workers() ? sequences : max_workers();
  return std::clamp<int64_t>(sequences * heads / tasks_wanted, 1, heads);
}

bool same(const Rope& a, const Rope& b) {
  return a.kind == b.kind && a.offset == b.offset && a.width == b.width && a.cos == b.cos &&
         a.sin == b.sin && a.table_stride == b.table_stride;
}

}  // namespace

CausalWeighting causal_weighting(const AttentionOptions& options, int64_t dim) {
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim)));
  return {options.rule, norm_of(options, true), options.eps, scale, options.key_mean};
}

template <typename T>
void causal_step(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
                 const CausalStateAfter& state) {
  using C = Compute<T>;
  const CausalPasses<C>& kernels = causal_passes<C>();
  const int64_t dim = token.q.dim, heads = token.k.heads, group = token.q.heads / heads;
  const int64_t state_size = attention_state_size(1, 1, dim, token.v.dim);
  const CausalWeighting weighting = causal_weighting(options, dim);
  const RopeAngles q_angles(options.q_rope, dim), own_k_angles(options.k_rope, dim);
  const RopeAngles& k_angles = same(options.q_rope, options.k_rope) ? q_angles : own_k_angles;
  const int64_t heads_a_task = heads_of_a_task(token.q.batch, heads);
  const int64_t tasks_a_sequence = (heads + heads_a_task - 1) / heads_a_task;
  parallel_for(token.q.batch * tasks_a_sequence, [&](int64_t task, int64_t) {
    const int64_t batch = task / tasks_a_sequence, head = task % tasks_a_sequence * heads_a_task;
    const Members<const void> q = members(token.q, batch, head * group);
    const Members<const void> k = members(token.k, batch, head);
    const int64_t count = state.counts[static_cast<size_t>(batch)];
    const Span one{0, 1};
    kernels.step({.key = {k.first, options.feature, &k_angles, options.k_rope.width, one, count},
                  .query = {q.first, options.feature, &q_angles, options.q_rope.width, one, count},
                  .k = k,
                  .v = members(token.v, batch, head),
                  .q = q,
                  .local = members(token.local, batch, head * group),
                  .gate = members(token.gate, batch, head * group),
                  .out = members(out, batch, head * group),
                  .weighting = weighting,
                  .heads = std::min(heads_a_task, heads - head),
                  .group = group,
                  .state = state.sums.data() + (batch * heads + head) * state_size});
  });
  for (int64_t& count : state.counts) ++count;
}

#define MALA_INSTANTIATE(T)                                                                   \
  template void causal_step(const AttentionInputs<T>&, const AttentionOptions&, HeadsView<T>, \
                            const CausalStateAfter&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
