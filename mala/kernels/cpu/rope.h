// The angles of a call's rotations, formed once in double.
#pragma once

#include "mala/kernels/attention.h"

namespace mala::cpu {

// How fast each pair turns. In a grid the first half of the pairs goes by row, the second by
// column. Pairs that only pad a row never turn.
struct RopeFrequencies {
  static constexpr int64_t kMaxPairs = 128;

  double theta[kMaxPairs] = {};                       // the angle at position p is p * theta
  double step_cos[kMaxPairs], step_sin[kMaxPairs];    // the turn from one position to the next
  double block_cos[kMaxPairs], block_sin[kMaxPairs];  // and from one block to the next, on a line

  RopeFrequencies(Rope::Kind kind, int64_t dim);
};

struct RopeAngles {
  Rope rope;
  int64_t pairs = 0;
  const RopeFrequencies* turns;

  RopeAngles(const Rope& rope, int64_t dim);
  bool rotates() const { return rope.kind != Rope::Kind::kNone; }
};

}  // namespace mala::cpu
