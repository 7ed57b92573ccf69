// The angles of a call's rotations, formed once in double.
#pragma once

#include "mala/kernels/attention.h"

namespace mala::cpu {

// Angle of pair t at position p: p * theta[t]. In a grid the first half of the pairs goes by
// row, the second by column.
struct RopeAngles {
  static constexpr int64_t kMaxPairs = 128;

  Rope rope;
  int64_t pairs = 0;
  double theta[kMaxPairs] = {};
  double step_cos[kMaxPairs], step_sin[kMaxPairs];  // the turn from one position to the next

  RopeAngles(const Rope& rope, int64_t dim);
  // Takes the frequencies from `other` where they are the same: they cost more than a short call.
  RopeAngles(const Rope& rope, int64_t dim, const RopeAngles& other);
  bool rotates() const { return rope.kind != Rope::Kind::kNone; }
};

}  // namespace mala::cpu
