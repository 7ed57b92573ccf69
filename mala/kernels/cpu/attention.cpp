// Forward: sum keys, finish the states, apply queries. Backward: queries, state gradients, keys.
#include "mala/kernels/cpu/attention.h"

#include <algorithm>

#include "mala/kernels/cpu/keys_half.h"
#include "mala/kernels/cpu/queries_half.h"
#include "mala/kernels/cpu/uncounted.h"
#include "mala/kernels/rule.h"

namespace mala::cpu {
namespace {

template <typename T>
Plan plan_of(const AttentionInputs<T>& inputs) {
  return {.sequences = query_sequences(inputs.q, inputs.lengths, {}).size(),
          .kv_heads = inputs.k.heads,
          .group = inputs.q.heads / inputs.k.heads,
          .layout = {inputs.q.dim, inputs.v.dim}};
}

// Since the mean value is at hand, the centre of the balanced norm is taken off the values.
KeyTerms terms_of(Norm norm) {
  const bool printed = norm == Norm::kPrinted;
  return {.plain = !printed, .rotated = printed, .centred = norm == Norm::kBalanced};
}

// Both halves of a call, on the same memory.
template <typename T>
class Call {
  using C = Compute<T>;

 public:
  Call(const AttentionInputs<T>& in, const AttentionOptions& with, std::byte* scratch)
      : plan_(plan_of(in)),
        terms_(terms_of(norm_of(with, false))),
        keys_({in.k, in.v, in.lengths}, with, plan_),
        queries_({in.q, in.local, in.gate, in.lengths}, with, plan_, keys_.sequences()),
        arena_(scratch),
        space_(plan_.layout, std::max(keys_.sum_slots(), queries_.sum_slots()),
               plan_.operand_slots(), arena_) {}

  int64_t scratch_bytes() const { return arena_.bytes_needed(); }

  void forward(HeadsView<T> out, std::span<C> state) const {
    auto finish = [&](int64_t unit, int64_t worker) {
      keys_.write_sums(unit, worker, state, space_);
      queries_.take_state(unit, worker, state, space_);
    };
    if (plan_.many_units()) {
      return parallel_for(plan_.units(), [&](int64_t unit, int64_t worker) {
        keys_.sum_unit(unit, worker, space_);
        finish(unit, worker);
        queries_.apply_unit(unit, worker, out, space_);
      });
    }
    keys_.sum_all(space_);
    parallel_for(plan_.units(), finish);
    queries_.apply_all(out, space_);
  }

  void backward(HeadsView<const T> out_gradient, std::span<const C> state,
                const AttentionGradients<T>& gradients) const {
    const QueryTensors<T> tensors{out_gradient, gradients};
    auto begin = [&](int64_t unit, int64_t worker) {
      queries_.take_state_back(unit, worker, state, space_);
    };
    auto turn = [&](int64_t unit, int64_t worker) {
      keys_.take_gradient(unit, worker, queries_.finish(unit, worker, state, space_), space_);
    };
    clear_uncounted(plan_, keys_.sequences(), gradients);
    if (plan_.many_units()) {
      return parallel_for(plan_.units(), [&](int64_t unit, int64_t worker) {
        begin(unit, worker);
        queries_.gradients_unit(unit, worker, tensors, space_);
        turn(unit, worker);
        keys_.gradients_unit(unit, worker, terms_, gradients, space_);
      });
    }
    parallel_for(plan_.units(), begin);
    queries_.gradients_all(tensors, space_);
    parallel_for(plan_.units(), turn);
    keys_.gradients_all(terms_, gradients, space_);
  }

 private:
  Plan plan_;
  KeyTerms terms_;
  KeysHalf<T> keys_;
  QueriesHalf<T> queries_;
  Arena arena_;
  Workspace<C> space_;
};

}  // namespace

template <typename T>
int64_t attention_scratch_bytes(const AttentionInputs<T>& inputs, const AttentionOptions& options) {
  return Call<T>(inputs, options, nullptr).scratch_bytes();
}

template <typename T>
void attention_forward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                       HeadsView<T> out, std::span<Compute<T>> state,
                       std::span<std::byte> scratch) {
  Call<T>(inputs, options, scratch.data()).forward(out, state);
}

template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const Compute<T>> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch) {
  Call<T>(inputs, options, scratch.data()).backward(out_gradient, state, gradients);
}

#define MALA_INSTANTIATE(T)                                                                     \
  template int64_t attention_scratch_bytes(const AttentionInputs<T>&, const AttentionOptions&); \
  template void attention_forward(const AttentionInputs<T>&, const AttentionOptions&,           \
                                  HeadsView<T>, std::span<Compute<T>>, std::span<std::byte>);   \
  template void attention_backward(const AttentionInputs<T>&, const AttentionOptions&,          \
                                   HeadsView<const T>, std::span<const Compute<T>>,             \
                                   const AttentionGradients<T>&, std::span<std::byte>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
