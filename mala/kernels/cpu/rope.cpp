// Frequencies of the rotations.
#include "mala/kernels/cpu/rope.h"

#include <algorithm>
#include <cmath>

namespace mala::cpu {
namespace {

double frequency(Rope::Kind kind, int64_t pair, int64_t dim) {
  if (kind == Rope::Kind::kLine) {
    return std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
  }
  const int64_t per_axis = dim / 4;
  const double t = static_cast<double>(pair % per_axis) / static_cast<double>(per_axis - 1);
  return std::pow(10000.0, -t);
}

}  // namespace

RopeAngles::RopeAngles(const Rope& of, int64_t dim) : rope(of), pairs(dim / 2) {
  // Pairs that only pad a row never turn.
  std::fill_n(step_cos, kMaxPairs, 1.0);
  std::fill_n(step_sin, kMaxPairs, 0.0);
  if (rope.kind != Rope::Kind::kLine && rope.kind != Rope::Kind::kGrid) return;
  for (int64_t t = 0; t < pairs; ++t) {
    theta[t] = frequency(rope.kind, t, dim);
    step_cos[t] = std::cos(theta[t]);
    step_sin[t] = std::sin(theta[t]);
  }
}

}  // namespace mala::cpu
