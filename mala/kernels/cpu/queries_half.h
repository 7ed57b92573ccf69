// The half of a call that walks over queries: it takes them through the state, and their gradients
// back into that of the state.
#pragma once

#include "mala/kernels/cpu/parts.h"
#include "mala/kernels/split.h"

namespace mala::cpu {

// What backward reads and writes for each query.
template <typename T>
struct QueryTensors {
  HeadsView<const T> out_gradient;
  const AttentionGradients<T>& gradients;
};

// `_unit` and `_all` as in KeysHalf. `keys` tells how many keys each sequence has.
template <typename T>
class QueriesHalf {
  using C = Compute<T>;

 public:
  QueriesHalf(const QueriesInputs<T>& inputs, const AttentionOptions& options, const Plan& plan,
              const Sequences& keys)
      : inputs_(inputs),
        options_(options),
        plan_(plan),
        angles_(options.q_rope, inputs.q.dim),
        sequences_(query_sequences(inputs.q, inputs.lengths, options.q_rope)),
        keys_(keys),
        parts_(plan, plan.group, [this](int64_t unit) { return split(unit).parts; }),
        kernels_(passes<C>()) {}

  // Two slots serve a worker: the sums so far, and those of one more query head.
  int64_t sum_slots() const { return plan_.many_units() ? 2 * max_workers() : parts_.total(); }

  // A unit's state made ready for its queries.
  void take_state(int64_t unit, int64_t worker, std::span<const C> state,
                  const Workspace<C>& space) const {
    prepare_head(state_of(state, unit, plan_.layout), plan_.layout, scales(unit),
                 operands(unit, worker, space));
  }

  void apply_unit(int64_t unit, int64_t worker, HeadsView<T> out, const Workspace<C>& space) const {
    for (int64_t member = 0; member < plan_.group; ++member) {
      apply({unit, member, 0, 0}, worker, out, space);
    }
  }
  void apply_all(HeadsView<T> out, const Workspace<C>& space) const {
    parts_.for_each([&](const Task& task, int64_t worker) { apply(task, worker, out, space); });
  }

  // The same for backward.
  void take_state_back(int64_t unit, int64_t worker, std::span<const C> state,
                       const Workspace<C>& space) const {
    take_state(unit, worker, state, space);
    transpose_state(plan_.layout, operands(unit, worker, space));
  }

  void gradients_unit(int64_t unit, int64_t worker, const QueryTensors<T>& tensors,
                      const Workspace<C>& space) const {
    const int64_t slot = 2 * worker;
    for (int64_t member = 0; member < plan_.group; ++member) {
      gradients({unit, member, 0, slot + (member > 0)}, worker, tensors, space);
      if (member > 0) add_parts(space.sums_in(slot), 2, plan_.layout, {0, 1});
    }
  }
  void gradients_all(const QueryTensors<T>& tensors, const Workspace<C>& space) const {
    parts_.for_each(
        [&](const Task& task, int64_t worker) { gradients(task, worker, tensors, space); });
    parts_.add_up(space);
  }

  // The gradient of a unit's state from what its queries left, for KeysHalf.
  double* finish(int64_t unit, int64_t worker, std::span<const C> state,
                 const Workspace<C>& space) const {
    double* gradient = space.sums_in(plan_.many_units() ? 2 * worker : parts_.first(unit));
    finish_gradient(gradient, state_of(state, unit, plan_.layout), plan_.layout, scales(unit));
    return gradient;
  }

  // The same for the caller, who is to add those of others: nothing is left to be centred.
  void write_gradient(int64_t unit, int64_t worker, std::span<const C> state, std::span<C> to,
                      const Workspace<C>& space) const {
    double* gradient = finish(unit, worker, state, space);
    add_centre_gradient(gradient, state_of(state, unit, plan_.layout), plan_.layout, scales(unit));
    write_state(gradient, plan_.layout, state_of(to, unit, plan_.layout));
  }

 private:
  Sequence sequence(int64_t unit) const { return sequences_[plan_.sequence(unit)]; }
  Split split(int64_t unit) const {
    return {sequence(unit).tokens.count, plan_.units() * plan_.group};
  }
  HeadScales scales(int64_t unit) const {
    return head_scales(options_, plan_.layout.dim, keys_[plan_.sequence(unit)].tokens.count);
  }

  template <typename U>
  MatrixView<U> of(const HeadsView<U>& view, const Task& task) const {
    const int64_t head = plan_.kv_head(task.unit) * plan_.group + task.member;
    return cut(view, head, sequence(task.unit));
  }
  Tokens queries(const Task& task) const {
    return {of(inputs_.q, task), options_.feature, &angles_, sequence(task.unit).width,
            split(task.unit).part(task.part)};
  }
  HeadOperands<C> operands(int64_t unit, int64_t worker, const Workspace<C>& space) const {
    return space.operands_in(plan_.operand_slot(unit, worker));
  }

  void apply(const Task& task, int64_t worker, HeadsView<T> out, const Workspace<C>& space) const {
    kernels_.apply_queries({.queries = queries(task),
                            .local = of(inputs_.local, task),
                            .gate = of(inputs_.gate, task),
                            .head = operands(task.unit, worker, space),
                            .weighting = scales(task.unit).weighting,
                            .out = of(out, task)},
                           space.tiles_of(worker));
  }

  void gradients(const Task& task, int64_t worker, const QueryTensors<T>& tensors,
                 const Workspace<C>& space) const {
    kernels_.query_gradients({.queries = queries(task),
                              .out_gradient = of(tensors.out_gradient, task),
                              .local = of(inputs_.local, task),
                              .gate = of(inputs_.gate, task),
                              .head = operands(task.unit, worker, space),
                              .weighting = scales(task.unit).weighting,
                              .d_query = of(tensors.gradients.q, task),
                              .d_local = of(tensors.gradients.local, task),
                              .d_gate = of(tensors.gradients.gate, task),
                              .sums = space.sums_in(task.slot)},
                             space.tiles_of(worker));
  }

  QueriesInputs<T> inputs_;
  AttentionOptions options_;
  Plan plan_;
  RopeAngles angles_;
  Sequences sequences_, keys_;
  Parts parts_;
  const Passes<C>& kernels_;
};

}  // namespace mala::cpu
