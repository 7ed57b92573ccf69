// One half at a time: the same phases as in the whole operator, up to the state or from it on.
#include "mala/kernels/cpu/split.h"

#include "mala/kernels/cpu/keys_half.h"
#include "mala/kernels/cpu/queries_half.h"
#include "mala/kernels/cpu/uncounted.h"

namespace mala::cpu {
namespace {

// What reaches keys from the gradient of raw sums, whatever the norm was.
constexpr KeyTerms kAllTerms{.plain = true, .rotated = true, .centred = false};

template <typename T>
Plan plan_of(const KeysInputs<T>& inputs) {
  return {.sequences = key_sequences(inputs.k, inputs.lengths, {}).size(),
          .kv_heads = inputs.k.heads,
          .group = 1,
          .layout = {inputs.k.dim, inputs.v.dim}};
}

template <typename T>
Plan plan_of(const QueriesInputs<T>& inputs, const TotalState<T>& state, int64_t value_dim) {
  return {.sequences = query_sequences(inputs.q, inputs.lengths, {}).size(),
          .kv_heads = state.heads,
          .group = inputs.q.heads / state.heads,
          .layout = {inputs.q.dim, value_dim}};
}

template <typename T>
class KeysCall {
  using C = Compute<T>;

 public:
  KeysCall(const KeysInputs<T>& in, const AttentionOptions& with, std::byte* scratch)
      : plan_(plan_of(in)),
        keys_(in, with, plan_),
        arena_(scratch),
        space_(plan_.layout, keys_.sum_slots(), plan_.operand_slots(), arena_) {}

  int64_t scratch_bytes() const { return arena_.bytes_needed(); }

  void forward(std::span<C> state) const {
    auto finish = [&](int64_t unit, int64_t worker) {
      keys_.write_sums(unit, worker, state, space_);
    };
    if (plan_.many_units()) {
      return parallel_for(plan_.units(), [&](int64_t unit, int64_t worker) {
        keys_.sum_unit(unit, worker, space_);
        finish(unit, worker);
      });
    }
    keys_.sum_all(space_);
    parallel_for(plan_.units(), finish);
  }

  void backward(std::span<const C> state_gradient, const AttentionGradients<T>& gradients) const {
    auto begin = [&](int64_t unit, int64_t worker) {
      keys_.take_gradient(unit, worker, state_gradient, space_);
    };
    clear_uncounted(plan_, keys_.sequences(), gradients);
    if (plan_.many_units()) {
      return parallel_for(plan_.units(), [&](int64_t unit, int64_t worker) {
        begin(unit, worker);
        keys_.gradients_unit(unit, worker, kAllTerms, gradients, space_);
      });
    }
    parallel_for(plan_.units(), begin);
    keys_.gradients_all(kAllTerms, gradients, space_);
  }

 private:
  Plan plan_;
  KeysHalf<T> keys_;
  Arena arena_;
  Workspace<C> space_;
};

template <typename T>
class QueriesCall {
  using C = Compute<T>;

 public:
  QueriesCall(const QueriesInputs<T>& in, const AttentionOptions& with, const TotalState<T>& state,
              int64_t value_dim, std::byte* scratch)
      : plan_(plan_of(in, state, value_dim)),
        sums_(state.sums),
        queries_(in, with, plan_, {.batch = plan_.sequences, .counts = state.key_counts}),
        arena_(scratch),
        space_(plan_.layout, queries_.sum_slots(), plan_.operand_slots(), arena_) {}

  int64_t scratch_bytes() const { return arena_.bytes_needed(); }

  void forward(HeadsView<T> out) const {
    auto begin = [&](int64_t unit, int64_t worker) {
      queries_.take_state(unit, worker, sums_, space_);
    };
    if (plan_.many_units()) {
      return parallel_for(plan_.units(), [&](int64_t unit, int64_t worker) {
        begin(unit, worker);
        queries_.apply_unit(unit, worker, out, space_);
      });
    }
    parallel_for(plan_.units(), begin);
    queries_.apply_all(out, space_);
  }

  void backward(const QueryTensors<T>& tensors, std::span<C> state_gradient) const {
    auto begin = [&](int64_t unit, int64_t worker) {
      queries_.take_state_back(unit, worker, sums_, space_);
    };
    auto finish = [&](int64_t unit, int64_t worker) {
      queries_.write_gradient(unit, worker, sums_, state_gradient, space_);
    };
    if (plan_.many_units()) {
      return parallel_for(plan_.units(), [&](int64_t unit, int64_t worker) {
        begin(unit, worker);
        queries_.gradients_unit(unit, worker, tensors, space_);
        finish(unit, worker);
      });
    }
    parallel_for(plan_.units(), begin);
    queries_.gradients_all(tensors, space_);
    parallel_for(plan_.units(), finish);
  }

 private:
  Plan plan_;
  std::span<const C> sums_;
  QueriesHalf<T> queries_;
  Arena arena_;
  Workspace<C> space_;
};

}  // namespace

template <typename T>
int64_t keys_scratch_bytes(const KeysInputs<T>& inputs, const AttentionOptions& options) {
  return KeysCall<T>(inputs, options, nullptr).scratch_bytes();
}

template <typename T>
int64_t queries_scratch_bytes(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                              const TotalState<T>& state, int64_t value_dim) {
  return QueriesCall<T>(inputs, options, state, value_dim, nullptr).scratch_bytes();
}

template <typename T>
void keys_forward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                  std::span<Compute<T>> state, std::span<std::byte> scratch) {
  KeysCall<T>(inputs, options, scratch.data()).forward(state);
}

template <typename T>
void queries_forward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                     const TotalState<T>& state, HeadsView<T> out, std::span<std::byte> scratch) {
  QueriesCall<T>(inputs, options, state, out.dim, scratch.data()).forward(out);
}

template <typename T>
void queries_backward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                      const TotalState<T>& state, HeadsView<const T> out_gradient,
                      const AttentionGradients<T>& gradients, std::span<Compute<T>> state_gradient,
                      std::span<std::byte> scratch) {
  QueriesCall<T>(inputs, options, state, out_gradient.dim, scratch.data())
      .backward({out_gradient, gradients}, state_gradient);
}

template <typename T>
void keys_backward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                   std::span<const Compute<T>> state_gradient,
                   const AttentionGradients<T>& gradients, std::span<std::byte> scratch) {
  KeysCall<T>(inputs, options, scratch.data()).backward(state_gradient, gradients);
}

#define MALA_INSTANTIATE(T)                                                                        \
  template int64_t keys_scratch_bytes(const KeysInputs<T>&, const AttentionOptions&);              \
  template int64_t queries_scratch_bytes(const QueriesInputs<T>&, const AttentionOptions&,         \
                                         const TotalState<T>&, int64_t);                           \
  template void keys_forward(const KeysInputs<T>&, const AttentionOptions&, std::span<Compute<T>>, \
                             std::span<std::byte>);                                                \
  template void queries_forward(const QueriesInputs<T>&, const AttentionOptions&,                  \
                                const TotalState<T>&, HeadsView<T>, std::span<std::byte>);         \
  template void queries_backward(                                                                  \
      const QueriesInputs<T>&, const AttentionOptions&, const TotalState<T>&, HeadsView<const T>,  \
      const AttentionGradients<T>&, std::span<Compute<T>>, std::span<std::byte>);                  \
  template void keys_backward(const KeysInputs<T>&, const AttentionOptions&,                       \
                              std::span<const Compute<T>>, const AttentionGradients<T>&,           \
                              std::span<std::byte>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
