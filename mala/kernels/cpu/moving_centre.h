// The point about which a sweep's values lie: the mean so far, moved on as keys come.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mala/kernels/cpu/causal_state.h"
#include "mala/kernels/cpu/layout.h"

namespace mala::cpu {

// What lies far from the mean costs digits: sums of many such values are large, and cancel when the
// mean is taken off. A value may pull the mean of few keys far away, so the centre is old when
// there are twice as many keys as it is the mean of.
template <typename T>
class MovingCentre {
 public:
  // `centre` (E, padded), from whose present place `sums` are counted; null where values have none.
  MovingCentre(T* centre, const StateLayout& layout, double* sums)
      : centre_(centre), layout_(layout), sums_(sums) {}

  const T* get() const { return centre_; }
  bool is_old(int64_t keys) const { return centre_ && keys >= 2 * keys_; }

  // For one who has put the centre there himself, before anything was summed about it.
  void is_mean_of(int64_t keys) { keys_ = keys; }

  // To the mean of all keys, whose sums stand in double.
  void move_to_mean(int64_t keys) {
    if (!centre_ || keys == 0) return;
    alignas(64) T mean[kMostPad] = {};
    for (int64_t j = 0; j < layout_.value_dim; ++j) {
      const double moved = sums_[layout_.values() + j] / static_cast<double>(keys);
      mean[j] = static_cast<T>(static_cast<double>(centre_[j]) + moved);
    }
    move_to(mean, keys);
  }

  void move_to(const T* centre, int64_t keys) {
    if (!centre_) return;
    move_centre<T>(centre_, centre, keys, layout_, sums_);
    std::copy_n(centre, layout_.value_pad(), centre_);
    keys_ = keys;
  }

 private:
  T* centre_;
  StateLayout layout_;
  double* sums_;
  int64_t keys_ = 0;  // those whose mean it is
};

}  // namespace mala::cpu
