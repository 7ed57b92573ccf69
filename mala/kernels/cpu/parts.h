// The tokens of a call's units in parts, and the workers' way through them.
#pragma once

#include <algorithm>
#include <array>

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/heads.h"
#include "mala/kernels/cpu/plan.h"
#include "mala/kernels/cpu/workspace.h"

namespace mala::cpu {

// A span of tokens of one head: the smallest piece of work, and where its sums go.
struct Task {
  int64_t unit, member, part;  // `member` counts the heads of the unit
  int64_t slot;
};

// The parts of few units, numbered from unit to unit; the number is also the slot of its sums.
class Parts {
 public:
  // of_head(unit) tells the parts of each of the unit's `members` heads.
  template <class OfHead>
  Parts(const Plan& plan, int64_t members, OfHead of_head) : members_(members) {
    if (plan.many_units()) return;
    for (units_ = 0; units_ < plan.units(); ++units_) {
      first_[units_ + 1] = first_[units_] + members * of_head(units_);
    }
  }

  int64_t total() const { return first_[units_]; }
  int64_t first(int64_t unit) const { return first_[unit]; }

  // body(task, worker) for all parts.
  template <class Body>
  void for_each(Body body) const {
    parallel_for(total(), [&](int64_t slot, int64_t worker) {
      const auto next = std::upper_bound(first_.begin(), first_.begin() + units_, slot);
      const int64_t unit = next - first_.begin() - 1;
      const int64_t index = slot - first_[unit];
      const int64_t of_head = (first_[unit + 1] - first_[unit]) / members_;
      body(Task{unit, index / of_head, index % of_head, slot}, worker);
    });
  }

  // Each unit's sums into its first slot: slices of the state side by side, since a single head
  // would leave the other workers idle.
  template <typename C>
  void add_up(const Workspace<C>& space) const {
    constexpr int64_t kSlices = 8;
    if (total() == units_) return;
    parallel_for(units_ * kSlices, [&](int64_t task, int64_t) {
      const int64_t unit = task / kSlices;
      add_parts(space.sums_in(first_[unit]), first_[unit + 1] - first_[unit], space.layout,
                {task % kSlices, kSlices});
    });
  }

 private:
  int64_t members_, units_ = 0;
  std::array<int64_t, kManyUnits> first_ = {};
};

}  // namespace mala::cpu
