// The causal form: units swept from the first token to the last, and back for the gradients. Where
// there are few units, their tokens are split: the parts' sums first, which tell each part what
// comes before it, then all sweeps side by side.
#include "mala/kernels/cpu/causal.h"

#include <algorithm>

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/causal_state.h"
#include "mala/kernels/cpu/causal_workspace.h"
#include "mala/kernels/cpu/plan.h"
#include "mala/kernels/cpu/uncounted.h"

namespace mala::cpu {
namespace {

// With this many units every worker has enough of them; splitting would sum the keys twice.
constexpr int64_t kEnoughUnits = 16;
constexpr int64_t kMostParts = 32;  // of all units together
constexpr int64_t kLeastTokens = 256;

// Packed keys lie as the queries do.
inline Lengths with_key_offsets(Lengths lengths) {
  if (lengths.k_offsets.empty()) lengths.k_offsets = lengths.q_offsets;
  return lengths;
}

template <typename T>
AttentionInputs<T> with_key_offsets(AttentionInputs<T> inputs) {
  inputs.lengths = with_key_offsets(inputs.lengths);
  return inputs;
}

enum class Direction { kForward, kBackward };

template <typename T>
class CausalCall {
  using C = Compute<T>;

 public:
  CausalCall(const CausalInputs<T>& inputs, const AttentionOptions& options, Direction direction,
             std::byte* scratch)
      : tokens_(with_key_offsets(inputs.tokens)),
        before_(inputs.before),
        feature_(options.feature),
        weighting_(causal_weighting(options, tokens_.q.dim)),
        queries_(query_sequences(tokens_.q, tokens_.lengths, options.q_rope)),
        keys_(key_sequences(tokens_.k, tokens_.lengths, options.k_rope)),
        plan_{queries_.size(),
              tokens_.k.heads,
              tokens_.q.heads / tokens_.k.heads,
              {tokens_.q.dim, tokens_.v.dim}},
        part_tokens_(choose_part_tokens()),
        q_angles_(options.q_rope, tokens_.q.dim),
        k_angles_(options.k_rope, tokens_.q.dim),
        arena_(scratch),
        space_(plan_.layout, sizes(direction), arena_),
        kernels_(causal_passes<C>()) {}

  int64_t scratch_bytes() const { return arena_.bytes_needed(); }

  void forward(HeadsView<T> out, const CausalStateAfter& after) const {
    sum_parts();
    for_each_part([&](const Part& part, int64_t worker) {
      const int64_t slot = start_part(part, worker);
      const bool wants_sums = is_last(part) && !after.sums.empty();
      kernels_.forward({.keys = keys(part),
                        .queries = queries(part),
                        .out = members(out, part.unit),
                        .sums = space_.sums_in(slot),
                        .wants_sums = wants_sums},
                       space_.tiles_of(worker));
      if (wants_sums) {
        write_sums(space_.sums_in(slot), count_after(plan_.sequence(part.unit)), centre(part.unit),
                   plan_.layout, after.sums.data() + part.unit * state_size());
      }
    });
    // Last: `after` may be the memory of `before`.
    for (int64_t i = 0; !after.counts.empty() && i < plan_.sequences; ++i) {
      after.counts[i] = count_after(i);
    }
  }

  void backward(const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to) const {
    clear_uncounted(plan_, keys_, to.tokens);
    sum_parts();
    if (few_units()) {
      for_each_part([&](const Part& part, int64_t worker) {
        query_gradients(part, start_part(part, worker), from, to, worker);
      });
      add_gradients_from_the_end(from);
    }
    for_each_part([&](const Part& part, int64_t worker) {
      const int64_t slot = few_units() ? slot_of(part) : worker;
      if (!few_units()) {
        query_gradients(part, start_part(part, worker), from, to, worker);
        start_gradients(gradient_after(from, part.unit), centre(part.unit), plan_.layout,
                        space_.gradients_in(slot));
      }
      key_gradients(part, slot, from, to, worker);
      if (part.index == 0 && !to.before.empty()) {
        write_gradients(space_.gradients_in(slot), centre(part.unit), plan_.layout,
                        to.before.data() + part.unit * state_size());
      }
    });
  }

 private:
  struct Part {
    int64_t unit, index;
  };

  int64_t tokens_in(int64_t unit) const { return queries_[plan_.sequence(unit)].tokens.count; }
  int64_t keys_in(int64_t unit) const { return keys_[plan_.sequence(unit)].tokens.count; }
  int64_t state_size() const {
    return attention_state_size(1, 1, plan_.layout.dim, plan_.layout.value_dim);
  }

  // Parts of one size for all units, so that the longest falls into as many as are wanted.
  int64_t choose_part_tokens() const {
    int64_t longest = 0;
    for (int64_t i = 0; i < plan_.sequences; ++i) {
      longest = std::max(longest, queries_[i].tokens.count);
    }
    if (plan_.units() >= kEnoughUnits) return longest;
    const int64_t parts =
        std::clamp<int64_t>(longest / kLeastTokens, 1, kMostParts / plan_.units());
    return divide_up(divide_up(longest, parts), kBlock) * kBlock;
  }
  bool few_units() const { return plan_.units() < kEnoughUnits; }
  int64_t parts_in(int64_t unit) const { return divide_up(tokens_in(unit), part_tokens_); }
  bool is_last(const Part& part) const { return part.index == parts_in(part.unit) - 1; }
  Span span_of(const Part& part) const {
    const int64_t first = part.index * part_tokens_;
    return {first, std::min(part_tokens_, tokens_in(part.unit) - first)};
  }

  // Where there are few units, every part has sums of its own, else every worker.
  int64_t slot_of(const Part& part) const { return first_slot(part.unit) + part.index; }
  int64_t first_slot(int64_t unit) const {
    int64_t slot = 0;
    for (int64_t u = 0; u < unit; ++u) slot += parts_in(u);
    return slot;
  }

  typename CausalWorkspace<C>::Sizes sizes(Direction direction) const {
    const int64_t slots = few_units() ? first_slot(plan_.units()) : max_workers();
    const bool backward = direction == Direction::kBackward;
    return {.sums = slots,
            .gradients = backward ? slots : 0,
            .units = centred() ? plan_.units() : 0,
            .weights = backward ? tokens_.q.batch * tokens_.q.heads * tokens_.q.tokens : 0};
  }

  // body(part, worker) for all parts.
  template <class Body>
  void for_each_part(Body body) const {
    const int64_t parts = few_units() ? first_slot(plan_.units()) : plan_.units();
    parallel_for(parts, [&](int64_t index, int64_t worker) {
      Part part{few_units() ? 0 : index, few_units() ? index : 0};
      while (part.index >= parts_in(part.unit)) part.index -= parts_in(part.unit++);
      body(part, worker);
    });
  }

  int64_t count_before(int64_t sequence) const {
    return before_.counts.empty() ? 0 : before_.counts[static_cast<size_t>(sequence)];
  }
  int64_t count_after(int64_t sequence) const {
    return count_before(sequence) + keys_[sequence].tokens.count;
  }
  const double* state_before(int64_t unit) const {
    return before_.sums.empty() ? nullptr : before_.sums.data() + unit * state_size();
  }
  const double* gradient_after(const CausalOutputGradients<T>& from, int64_t unit) const {
    return from.after.empty() ? nullptr : from.after.data() + unit * state_size();
  }

  bool centred() const { return weighting_.norm == Norm::kBalanced; }
  const C* centre(int64_t unit) const { return centred() ? space_.centre_of(unit) : nullptr; }

  // About the mean of the keys before. A text that begins here has none that all tokens see: the
  // sweeps find their own.
  void choose_centre(int64_t unit) const {
    if (!centred()) return;
    const StateLayout& layout = plan_.layout;
    C* to = space_.centre_of(unit);
    std::fill_n(to, layout.value_pad(), C(0));
    const int64_t count = count_before(plan_.sequence(unit));
    for (int64_t j = 0; count > 0 && j < layout.value_dim; ++j) {
      const double sum = state_before(unit)[state_size() - layout.value_dim + j];
      to[j] = static_cast<C>(sum / static_cast<double>(count));
    }
  }

  // Where units are split: leaves in each part's slot the sums before it.
  void sum_parts() const {
    if (!few_units()) return;
    parallel_for(plan_.units(), [&](int64_t unit, int64_t) { choose_centre(unit); });
    for_each_part([&](const Part& part, int64_t worker) {
      if (is_last(part)) return;
      kernels_.sum_keys(keys(part), space_.sums_in(slot_of(part) + 1), space_.tiles_of(worker));
    });
    parallel_for(plan_.units(), [&](int64_t unit, int64_t) {
      double* sums = space_.sums_in(slot_of({unit, 0}));
      start_sums(state_before(unit), count_before(plan_.sequence(unit)), centre(unit), plan_.layout,
                 sums);
      const int64_t size = plan_.layout.size(), all = parts_in(unit) * size;
      for (int64_t i = size; i < all; ++i) sums[i] += sums[i - size];
    });
  }

  // The slot that holds the sums before the part.
  int64_t start_part(const Part& part, int64_t worker) const {
    if (few_units()) return slot_of(part);
    choose_centre(part.unit);
    start_sums(state_before(part.unit), count_before(plan_.sequence(part.unit)), centre(part.unit),
               plan_.layout, space_.sums_in(worker));
    return worker;
  }

  // A part's own gradients lie in the slot of the part before it, for which they are meant.
  void add_gradients_from_the_end(const CausalOutputGradients<T>& from) const {
    parallel_for(plan_.units(), [&](int64_t unit, int64_t) {
      const int64_t size = plan_.layout.size(), all = parts_in(unit) * size;
      double* gradients = space_.gradients_in(slot_of({unit, 0}));
      start_gradients(gradient_after(from, unit), centre(unit), plan_.layout,
                      gradients + all - size);
      for (int64_t i = all - size - 1; i >= 0; --i) gradients[i] += gradients[i + size];
    });
  }

  template <typename U>
  MatrixView<U> of_keys(const HeadsView<U>& view, int64_t unit) const {
    return cut(view, plan_.kv_head(unit), keys_[plan_.sequence(unit)]);
  }

  template <typename U>
  auto members(const HeadsView<U>& view, int64_t unit) const {
    using Void = std::conditional_t<std::is_const_v<U>, const void, void>;
    const int64_t head = plan_.kv_head(unit) * plan_.group;
    return Members<Void>{cut(view, head, queries_[plan_.sequence(unit)]), view.head_stride};
  }

  CausalKeys<C> keys(const Part& part) const {
    const int64_t sequence = plan_.sequence(part.unit);
    return {.keys = {of_keys(tokens_.k, part.unit), feature_, &k_angles_, keys_[sequence].width,
                     span_of(part), count_before(sequence)},
            .values = of_keys(tokens_.v, part.unit),
            .key_count = keys_in(part.unit),
            .weighting = weighting_,
            .centre = centre(part.unit)};
  }

  CausalQueries<C> queries(const Part& part) const {
    const int64_t sequence = plan_.sequence(part.unit);
    const Members<const void> x = members(tokens_.q, part.unit);
    return {.group = plan_.group,
            .queries = {x.first, feature_, &q_angles_, queries_[sequence].width, span_of(part),
                        count_before(sequence)},
            .x = x,
            .local = members(tokens_.local, part.unit),
            .gate = members(tokens_.gate, part.unit)};
  }

  // The weights of a sequence's tokens, head after head.
  TokenWeights<C>* weights_of(int64_t unit) const {
    const Sequence sequence = queries_[plan_.sequence(unit)];
    const int64_t tokens_before = sequence.batch * tokens_.q.tokens + sequence.tokens.first;
    return space_.weights + tokens_before * tokens_.q.heads +
           plan_.kv_head(unit) * plan_.group * sequence.tokens.count;
  }

  void query_gradients(const Part& part, int64_t slot, const CausalOutputGradients<T>& from,
                       const CausalInputGradients<T>& to, int64_t worker) const {
    const bool wanted = few_units() && part.index > 0;
    kernels_.query_gradients(
        {.keys = keys(part),
         .queries = queries(part),
         .out_gradient = members(from.out, part.unit),
         .d_query = members(to.tokens.q, part.unit),
         .d_local = members(to.tokens.local, part.unit),
         .d_gate = members(to.tokens.gate, part.unit),
         .weights = weights_of(part.unit),
         .weights_stride = tokens_in(part.unit),
         .sums = space_.sums_in(slot),
         .gradients = wanted ? space_.gradients_in(slot_of(part) - 1) : nullptr},
        space_.tiles_of(worker));
  }

  void key_gradients(const Part& part, int64_t slot, const CausalOutputGradients<T>& from,
                     const CausalInputGradients<T>& to, int64_t worker) const {
    kernels_.key_gradients({.keys = keys(part),
                            .queries = queries(part),
                            .out_gradient = members(from.out, part.unit),
                            .weights = weights_of(part.unit),
                            .weights_stride = tokens_in(part.unit),
                            .d_key = of_keys(to.tokens.k, part.unit),
                            .d_value = of_keys(to.tokens.v, part.unit),
                            .gradients = space_.gradients_in(slot)},
                           space_.tiles_of(worker));
  }

  AttentionInputs<T> tokens_;
  CausalState before_;
  Feature feature_;
  CausalWeighting weighting_;
  Sequences queries_, keys_;
  Plan plan_;
  int64_t part_tokens_;
  RopeAngles q_angles_, k_angles_;
  Arena arena_;
  CausalWorkspace<C> space_;
  const CausalPasses<C>& kernels_;
};

}  // namespace

template <typename T>
int64_t causal_forward_scratch_bytes(const CausalInputs<T>& inputs,
                                     const AttentionOptions& options) {
  return CausalCall<T>(inputs, options, Direction::kForward, nullptr).scratch_bytes();
}

template <typename T>
int64_t causal_backward_scratch_bytes(const CausalInputs<T>& inputs,
                                      const AttentionOptions& options) {
  return CausalCall<T>(inputs, options, Direction::kBackward, nullptr).scratch_bytes();
}

template <typename T>
void causal_forward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                    HeadsView<T> out, const CausalStateAfter& after, std::span<std::byte> scratch) {
  CausalCall<T>(inputs, options, Direction::kForward, scratch.data()).forward(out, after);
}

template <typename T>
void causal_backward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                     std::span<std::byte> scratch) {
  CausalCall<T>(inputs, options, Direction::kBackward, scratch.data()).backward(from, to);
}

#define MALA_INSTANTIATE(T)                                                                        \
  template int64_t causal_forward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&);  \
  template int64_t causal_backward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&); \
  template void causal_forward(const CausalInputs<T>&, const AttentionOptions&, HeadsView<T>,      \
                               const CausalStateAfter&, std::span<std::byte>);                     \
  template void causal_backward(const CausalInputs<T>&, const AttentionOptions&,                   \
                                const CausalOutputGradients<T>&, const CausalInputGradients<T>&,   \
                                std::span<std::byte>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
