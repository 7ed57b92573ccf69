// Forward: sum keys, finish the states, apply queries. Backward: queries, state gradients, keys.
#include "mala/kernels/cpu/attention.h"

#include <algorithm>

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/heads.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/plan.h"
#include "mala/kernels/cpu/workspace.h"

namespace mala::cpu {
namespace {

// A span of tokens of one head: the smallest piece of work, and where its sums go.
struct Task {
  int64_t unit, member, part;  // `member` counts the query heads of the unit
  int64_t slot;
};

// A call: what was asked, how it falls apart, and where its pieces work.
template <typename T>
class Call {
  using C = Compute<T>;

 public:
  Call(const AttentionInputs<T>& in, const AttentionOptions& with, std::byte* scratch)
      : inputs_(in),
        options_(with),
        plan_(plan_of(in)),
        q_angles_(with.q_rope, in.q.dim),
        k_angles_(with.k_rope, in.q.dim, q_angles_),
        arena_(scratch),
        space_(plan_.layout, sum_slots(), operand_slots(), arena_),
        kernels_(passes<C>()) {}  // here, where a wrong MALA_ISA may still throw

  int64_t scratch_bytes() const { return arena_.bytes_needed(); }

  void forward(HeadsView<T> out, std::span<C> state) const {
    if (plan_.many_units()) {
      return for_each_unit([&](int64_t unit, int64_t worker) {
        sum_keys({unit, 0, 0, 2 * worker}, worker);
        finish_state(unit, 2 * worker, worker, state);
        for_each_member([&](int64_t member) {
          apply_queries({unit, member, 0, 0}, worker, worker, out);
        });
      });
    }
    for_each_key_part([&](const Task& task, int64_t worker) { sum_keys(task, worker); });
    add_all_parts(&Call::key_parts);
    for_each_unit([&](int64_t unit, int64_t) {
      finish_state(unit, first_slot(unit, &Call::key_parts), unit, state);
    });
    for_each_query_part(
        [&](const Task& task, int64_t worker) { apply_queries(task, task.unit, worker, out); });
  }

  void backward(HeadsView<const T> out_gradient, std::span<const C> state,
                const AttentionGradients<T>& gradients) const {
    clear_uncounted_keys(gradients);
    if (plan_.many_units()) {
      return for_each_unit([&](int64_t unit, int64_t worker) {
        restore_state(unit, worker, state);
        for_each_member([&](int64_t member) {
          const int64_t slot = 2 * worker + (member > 0);
          query_gradients({unit, member, 0, slot}, worker, worker, {out_gradient, gradients});
          if (member > 0) add_parts(space_.sums_in(2 * worker), 2, plan_.layout, {0, 1});
        });
        finish_state_gradient(unit, 2 * worker, worker, state);
        key_gradients({unit, 0, 0, 0}, worker, worker, gradients);
      });
    }
    for_each_unit([&](int64_t unit, int64_t) { restore_state(unit, unit, state); });
    for_each_query_part([&](const Task& task, int64_t worker) {
      query_gradients(task, task.unit, worker, {out_gradient, gradients});
    });
    add_all_parts(&Call::query_parts);
    for_each_unit([&](int64_t unit, int64_t) {
      finish_state_gradient(unit, first_slot(unit, &Call::query_parts), unit, state);
    });
    for_each_key_part([&](const Task& task, int64_t worker) {
      key_gradients(task, task.unit, worker, gradients);
    });
  }

 private:
  struct Outgoing {
    HeadsView<const T> out_gradient;
    const AttentionGradients<T>& gradients;
  };

  // How many parts a unit has for the passes over keys, and over the queries of all its heads.
  int64_t key_parts(int64_t unit) const { return key_split(unit).parts; }
  int64_t query_parts(int64_t unit) const { return query_split(unit).parts * plan_.group; }
  using PartsOf = int64_t (Call::*)(int64_t) const;

  int64_t first_slot(int64_t unit, PartsOf parts) const {
    int64_t slot = 0;
    for (int64_t u = 0; u < unit; ++u) slot += (this->*parts)(u);
    return slot;
  }

  // Two slots serve a worker: the sums so far, and those of one more query head.
  int64_t sum_slots() const {
    if (plan_.many_units()) return 2 * max_workers();
    return std::max(first_slot(plan_.units(), &Call::key_parts),
                    first_slot(plan_.units(), &Call::query_parts));
  }
  int64_t operand_slots() const { return plan_.many_units() ? max_workers() : plan_.units(); }

  Sequence sequence(int64_t unit) const {
    return sequence_of(inputs_, options_, unit / plan_.kv_heads);
  }
  Split key_split(int64_t unit) const { return {sequence(unit).keys.count, plan_.units()}; }
  Split query_split(int64_t unit) const {
    return {sequence(unit).queries.count, plan_.units() * plan_.group};
  }
  HeadScales scales(int64_t unit) const {
    return head_scales(options_, plan_.layout.dim, sequence(unit).keys.count);
  }

  // The matrix of one head, cut down to the tokens of a sequence.
  template <typename U>
  static MatrixView<U> cut(const HeadsView<U>& view, int64_t batch, int64_t head, Span tokens) {
    if (!view.data) return {};
    MatrixView<U> matrix = view.head(batch, head);
    matrix.data = matrix.row(tokens.first);
    matrix.rows = tokens.count;
    return matrix;
  }
  template <typename U>
  MatrixView<U> of_queries(const HeadsView<U>& view, const Task& task) const {
    const Sequence of = sequence(task.unit);
    const int64_t head = task.unit % plan_.kv_heads * plan_.group + task.member;
    return cut(view, of.batch, head, of.queries);
  }
  template <typename U>
  MatrixView<U> of_keys(const HeadsView<U>& view, const Task& task) const {
    const Sequence of = sequence(task.unit);
    return cut(view, of.batch, task.unit % plan_.kv_heads, of.keys);
  }

  Tokens queries(const Task& task) const {
    return {of_queries(inputs_.q, task), options_.feature, &q_angles_, sequence(task.unit).q_width,
            query_split(task.unit).part(task.part)};
  }
  Tokens keys(const Task& task) const {
    return {of_keys(inputs_.k, task), options_.feature, &k_angles_, sequence(task.unit).k_width,
            key_split(task.unit).part(task.part)};
  }

  template <typename U>
  HeadState<U> state_of(std::span<U> all, int64_t unit) const {
    const int64_t dim = plan_.layout.dim, value_dim = plan_.layout.value_dim;
    return {all.data() + unit * attention_state_size(1, 1, dim, value_dim), dim, value_dim};
  }

  // body(unit, worker) for all.
  template <class Body>
  void for_each_unit(Body body) const {
    parallel_for(plan_.units(), body);
  }
  template <class Body>
  void for_each_member(Body body) const {
    for (int64_t member = 0; member < plan_.group; ++member) body(member);
  }

  // body(task, worker) for all parts. There are few units here, so that a task is found by
  // counting.
  template <class Body>
  void for_each_part(PartsOf parts, Body body) const {
    parallel_for(first_slot(plan_.units(), parts), [&](int64_t slot, int64_t worker) {
      int64_t unit = 0, index = slot;
      while (index >= (this->*parts)(unit)) index -= (this->*parts)(unit++);
      const int64_t per_head = (this->*parts)(unit) / (parts == &Call::key_parts ? 1 : plan_.group);
      body(Task{unit, index / per_head, index % per_head, slot}, worker);
    });
  }
  template <class Body>
  void for_each_key_part(Body body) const {
    for_each_part(&Call::key_parts, body);
  }
  template <class Body>
  void for_each_query_part(Body body) const {
    for_each_part(&Call::query_parts, body);
  }

  // Each unit's sums into its first slot: slices of the state side by side, since a single head
  // would leave the other workers idle.
  void add_all_parts(PartsOf parts) const {
    constexpr int64_t kSlices = 8;
    if (first_slot(plan_.units(), parts) == plan_.units()) return;
    parallel_for(plan_.units() * kSlices, [&](int64_t task, int64_t) {
      const int64_t unit = task / kSlices;
      add_parts(space_.sums_in(first_slot(unit, parts)), (this->*parts)(unit), plan_.layout,
                {task % kSlices, kSlices});
    });
  }

  void sum_keys(const Task& task, int64_t worker) const {
    kernels_.sum_keys(
        {.keys = keys(task), .values = of_keys(inputs_.v, task), .sums = space_.sums_in(task.slot)},
        space_.tiles_of(worker));
  }

  void finish_state(int64_t unit, int64_t slot, int64_t operands, std::span<C> state) const {
    double* sums = space_.sums_in(slot);
    write_state(sums, plan_.layout, state_of(state, unit));
    prepare_head(state_of(std::span<const C>(state), unit), plan_.layout, scales(unit),
                 space_.operands_in(operands));
  }

  void apply_queries(const Task& task, int64_t operands, int64_t worker, HeadsView<T> out) const {
    kernels_.apply_queries({.queries = queries(task),
                            .local = of_queries(inputs_.local, task),
                            .gate = of_queries(inputs_.gate, task),
                            .head = space_.operands_in(operands),
                            .weighting = scales(task.unit).weighting,
                            .out = of_queries(out, task)},
                           space_.tiles_of(worker));
  }

  void restore_state(int64_t unit, int64_t operands, std::span<const C> state) const {
    const HeadOperands<C> head = space_.operands_in(operands);
    prepare_head(state_of(state, unit), plan_.layout, scales(unit), head);
    transpose_state(plan_.layout, head);
  }

  void query_gradients(const Task& task, int64_t operands, int64_t worker,
                       const Outgoing& outgoing) const {
    kernels_.query_gradients({.queries = queries(task),
                              .out_gradient = of_queries(outgoing.out_gradient, task),
                              .local = of_queries(inputs_.local, task),
                              .gate = of_queries(inputs_.gate, task),
                              .head = space_.operands_in(operands),
                              .weighting = scales(task.unit).weighting,
                              .d_query = of_queries(outgoing.gradients.q, task),
                              .d_local = of_queries(outgoing.gradients.local, task),
                              .d_gate = of_queries(outgoing.gradients.gate, task),
                              .sums = space_.sums_in(task.slot)},
                             space_.tiles_of(worker));
  }

  void finish_state_gradient(int64_t unit, int64_t slot, int64_t operands,
                             std::span<const C> state) const {
    prepare_head_gradient(space_.sums_in(slot), state_of(state, unit), plan_.layout, scales(unit),
                          space_.operands_in(operands));
  }

  void key_gradients(const Task& task, int64_t operands, int64_t worker,
                     const AttentionGradients<T>& gradients) const {
    kernels_.key_gradients({.keys = keys(task),
                            .values = of_keys(inputs_.v, task),
                            .head = space_.operands_in(operands),
                            .weighting = scales(task.unit).weighting,
                            .d_key = of_keys(gradients.k, task),
                            .d_value = of_keys(gradients.v, task)},
                           space_.tiles_of(worker));
  }

  // Keys beyond the count have no part in the result.
  void clear_uncounted_keys(const AttentionGradients<T>& gradients) const {
    if (inputs_.lengths.key_counts.empty()) return;
    for_each_unit([&](int64_t unit, int64_t) {
      const int64_t batch = unit / plan_.kv_heads, head = unit % plan_.kv_heads;
      const int64_t counted = sequence(unit).keys.count;
      const Span rest{counted, inputs_.k.tokens - counted};
      fill_zero(cut(gradients.k, batch, head, rest));
      fill_zero(cut(gradients.v, batch, head, rest));
    });
  }

  static void fill_zero(const MatrixView<T>& matrix) {
    for (int64_t i = 0; i < matrix.rows; ++i) {
      for (int64_t j = 0; j < matrix.cols; ++j) matrix.at(i, j) = T{};
    }
  }

  const AttentionInputs<T>& inputs_;
  const AttentionOptions& options_;
  Plan plan_;
  RopeAngles q_angles_, k_angles_;
  Arena arena_;
  Workspace<C> space_;
  const Passes<C>& kernels_;
};

}  // namespace

template <typename T>
int64_t attention_scratch_bytes(const AttentionInputs<T>& inputs, const AttentionOptions& options) {
  AttentionOptions without_rope = options;  // angles take time, and no room
  without_rope.q_rope = without_rope.k_rope = {};
  return Call<T>(inputs, without_rope, nullptr).scratch_bytes();
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
