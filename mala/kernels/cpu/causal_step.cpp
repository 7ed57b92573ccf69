// One token for every sequence: each worker has its share of all heads' states.
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

bool same(const Rope& a, const Rope& b) {
  return a.kind == b.kind && a.offset == b.offset && a.width == b.width && a.cos == b.cos &&
         a.sin == b.sin && a.table_stride == b.table_stride;
}

template <typename T>
class StepCall {
  using C = Compute<T>;

 public:
  StepCall(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
           const CausalStateAfter& state)
      : token_(token),
        options_(options),
        out_(out),
        state_(state),
        heads_(token.k.heads),
        group_(token.q.heads / heads_),
        state_size_(attention_state_size(1, 1, token.q.dim, token.v.dim)),
        weighting_(causal_weighting(options, token.q.dim)),
        q_angles_(options.q_rope, token.q.dim),
        own_k_angles_(options.k_rope, token.q.dim),
        kernels_(causal_passes<C>()) {}

  // A worker's share is the same in every call: its part of the state stays in its core's cache.
  void run() const {
    const int64_t units = token_.q.batch * heads_, shares = std::min(units, max_workers());
    parallel_for(shares, [&](int64_t share, int64_t) {
      const int64_t end = (share + 1) * units / shares;
      for (int64_t unit = share * units / shares; unit < end;) {
        const int64_t rest_of_sequence = heads_ - unit % heads_;
        const int64_t count = std::min(rest_of_sequence, end - unit);
        run_heads(unit / heads_, unit % heads_, count);
        unit += count;
      }
    });
    for (int64_t& count : state_.counts) ++count;
  }

 private:
  // Some heads of one sequence, which share its angles.
  void run_heads(int64_t batch, int64_t head, int64_t heads) const {
    const Members<const void> q = members(token_.q, batch, head * group_);
    const Members<const void> k = members(token_.k, batch, head);
    const int64_t count = state_.counts[static_cast<size_t>(batch)];
    const RopeAngles& k_angles = same(options_.q_rope, options_.k_rope) ? q_angles_ : own_k_angles_;
    const Span one{0, 1};
    kernels_.step(
        {.key = {k.first, options_.feature, &k_angles, options_.k_rope.width, one, count},
         .query = {q.first, options_.feature, &q_angles_, options_.q_rope.width, one, count},
         .k = k,
         .v = members(token_.v, batch, head),
         .q = q,
         .local = members(token_.local, batch, head * group_),
         .gate = members(token_.gate, batch, head * group_),
         .out = members(out_, batch, head * group_),
         .weighting = weighting_,
         .heads = heads,
         .group = group_,
         .state = state_.sums.data() + (batch * heads_ + head) * state_size_});
  }

  const AttentionInputs<T>& token_;
  const AttentionOptions& options_;
  HeadsView<T> out_;
  CausalStateAfter state_;
  int64_t heads_, group_, state_size_;
  CausalWeighting weighting_;
  RopeAngles q_angles_, own_k_angles_;
  const CausalPasses<C>& kernels_;
};

}  // namespace

CausalWeighting causal_weighting(const AttentionOptions& options, int64_t dim) {
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim)));
  return {options.rule, norm_of(options, true), options.eps, scale, options.key_mean};
}

template <typename T>
void causal_step(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
                 const CausalStateAfter& state) {
  StepCall<T>(token, options, out, state).run();
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
