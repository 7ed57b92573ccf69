// The half of a call that walks over keys: it sums them, and writes their gradients.
#pragma once

#include "mala/kernels/cpu/parts.h"
#include "mala/kernels/split.h"

namespace mala::cpu {

// `_unit` does all of one unit, where there are many, and `_all` the parts of few side by side.
// Either way a unit's sums and operands are found by its number and the worker that asks.
template <typename T>
class KeysHalf {
  using C = Compute<T>;

 public:
  KeysHalf(const KeysInputs<T>& inputs, const AttentionOptions& options, const Plan& plan)
      : inputs_(inputs),
        feature_(options.feature),
        plan_(plan),
        angles_(options.k_rope, inputs.k.dim),
        sequences_(key_sequences(inputs.k, inputs.lengths, options.k_rope)),
        parts_(plan, 1, [this](int64_t unit) { return split(unit).parts; }),
        kernels_(passes<C>()) {}  // here, where a wrong MALA_ISA may still throw

  int64_t sum_slots() const { return plan_.many_units() ? max_workers() : parts_.total(); }
  const Sequences& sequences() const { return sequences_; }

  void sum_unit(int64_t unit, int64_t worker, const Workspace<C>& space) const {
    sum({unit, 0, 0, worker}, worker, space);
  }
  void sum_all(const Workspace<C>& space) const {
    parts_.for_each([&](const Task& task, int64_t worker) { sum(task, worker, space); });
    parts_.add_up(space);
  }

  void write_sums(int64_t unit, int64_t worker, std::span<C> state,
                  const Workspace<C>& space) const {
    write_state(sums(unit, worker, space), plan_.layout, state_of(state, unit, plan_.layout));
  }

  // The gradient of a unit's state made ready for its keys: one that QueriesHalf left, or a
  // caller's.
  void take_gradient(int64_t unit, int64_t worker, const double* gradient,
                     const Workspace<C>& space) const {
    prepare_head_gradient(gradient, plan_.layout, operands(unit, worker, space));
  }
  void take_gradient(int64_t unit, int64_t worker, std::span<const C> gradient,
                     const Workspace<C>& space) const {
    double* copy = sums(unit, worker, space);
    read_state(state_of(gradient, unit, plan_.layout), plan_.layout, copy);
    take_gradient(unit, worker, copy, space);
  }

  void gradients_unit(int64_t unit, int64_t worker, KeyTerms terms, const AttentionGradients<T>& to,
                      const Workspace<C>& space) const {
    gradients({unit, 0, 0, 0}, worker, terms, to, space);
  }
  void gradients_all(KeyTerms terms, const AttentionGradients<T>& to,
                     const Workspace<C>& space) const {
    parts_.for_each(
        [&](const Task& task, int64_t worker) { gradients(task, worker, terms, to, space); });
  }

 private:
  Sequence sequence(int64_t unit) const { return sequences_[plan_.sequence(unit)]; }
  Split split(int64_t unit) const { return {sequence(unit).tokens.count, plan_.units()}; }

  template <typename U>
  MatrixView<U> of(const HeadsView<U>& view, const Task& task) const {
    return cut(view, plan_.kv_head(task.unit), sequence(task.unit));
  }
  Tokens keys(const Task& task) const {
    return {of(inputs_.k, task), feature_, &angles_, sequence(task.unit).width,
            split(task.unit).part(task.part)};
  }
  double* sums(int64_t unit, int64_t worker, const Workspace<C>& space) const {
    return space.sums_in(plan_.many_units() ? worker : parts_.first(unit));
  }
  HeadOperands<C> operands(int64_t unit, int64_t worker, const Workspace<C>& space) const {
    return space.operands_in(plan_.operand_slot(unit, worker));
  }

  void sum(const Task& task, int64_t worker, const Workspace<C>& space) const {
    kernels_.sum_keys(
        {.keys = keys(task), .values = of(inputs_.v, task), .sums = space.sums_in(task.slot)},
        space.tiles_of(worker));
  }

  void gradients(const Task& task, int64_t worker, KeyTerms terms, const AttentionGradients<T>& to,
                 const Workspace<C>& space) const {
    kernels_.key_gradients({.keys = keys(task),
                            .values = of(inputs_.v, task),
                            .head = operands(task.unit, worker, space),
                            .terms = terms,
                            .d_key = of(to.k, task),
                            .d_value = of(to.v, task)},
                           space.tiles_of(worker));
  }

  KeysInputs<T> inputs_;
  Feature feature_;
  Plan plan_;
  RopeAngles angles_;
  Sequences sequences_;
  Parts parts_;
  const Passes<C>& kernels_;
};

}  // namespace mala::cpu
