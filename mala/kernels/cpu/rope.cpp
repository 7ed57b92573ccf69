// Frequencies of the rotations.
#include "mala/kernels/cpu/rope.h"

#include <algorithm>
#include <cmath>

namespace mala::cpu {
namespace {

double frequency(Rope::Kind kind, int64_t pair, int64_t dim) {
  const double t = static_cast<double>(pair);
  const double exponent = kind == Rope::Kind::kLine ? 2 * t / static_cast<double>(dim)
                                                    : t / static_cast<double>(dim / 4 - 1);
  return std::pow(10000.0, -exponent);
}

}  // namespace

RopeAngles::RopeAngles(const Rope& of, int64_t dim) : rope(of), pairs(dim / 2) {
  // Pairs that only pad a row never turn.
  std::fill_n(step_cos, kMaxPairs, 1.0);
  std::fill_n(step_sin, kMaxPairs, 0.0);
  if (rope.kind != Rope::Kind::kLine && rope.kind != Rope::Kind::kGrid) return;
  // Both halves of a grid have the same frequencies.
  const int64_t distinct = rope.kind == Rope::Kind::kGrid ? pairs / 2 : pairs;
  for (int64_t t = 0; t < distinct; ++t) {
    theta[t] = frequency(rope.kind, t, dim);
    step_cos[t] = std::cos(theta[t]);
    step_sin[t] = std::sin(theta[t]);
  }
  for (double* values : {theta, step_cos, step_sin}) {
    std::copy_n(values, pairs - distinct, values + distinct);
  }
}

RopeAngles::RopeAngles(const Rope& of, int64_t dim, const RopeAngles& other)
    : RopeAngles(of.kind == other.rope.kind ? other : RopeAngles(of, dim)) {
  rope = of;
}

}  // namespace mala::cpu
