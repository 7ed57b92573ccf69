// Rotary positions: the angle of every pair of a token, and the turn by it and back.
#pragma once

#include <cstdint>
#include <vector>

#include "mala/kernels/attention.h"

namespace mala::reference {

using Row = std::vector<double>;

class Rotation {
 public:
  Rotation(const Rope& rope, int64_t dim);

  // R_token x, and its inverse R_token^T x.
  Row turn(int64_t token, const Row& x) const;
  Row turn_back(int64_t token, const Row& x) const;

 private:
  struct Turn {
    double cos, sin;
  };
  Turn turn_of(int64_t token, int64_t pair) const;
  double angle(int64_t token, int64_t pair) const;

  Rope rope_;
  Row frequencies_;  // line: one per pair; grid: one per pair of a half
};

}  // namespace mala::reference
