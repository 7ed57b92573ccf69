// Frequencies of the rotations.
#include "mala/kernels/cpu/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>

#include "mala/kernels/cpu/layout.h"

namespace mala::cpu {
namespace {

double frequency(Rope::Kind kind, int64_t pair, int64_t dim) {
  const double t = static_cast<double>(pair);
  const double exponent = kind == Rope::Kind::kLine ? 2 * t / static_cast<double>(dim)
                                                    : t / static_cast<double>(dim / 4 - 1);
  return std::pow(10000.0, -exponent);
}

// Formed once for each kind and size of head: they cost more than a short call.
const RopeFrequencies& frequencies(Rope::Kind kind, int64_t dim) {
  constexpr size_t kKinds = 4, kDims = RopeFrequencies::kMaxPairs / 4 + 1;
  struct Entry {
    std::once_flag once;
    std::unique_ptr<const RopeFrequencies> value;
  };
  static std::array<Entry, kKinds * kDims> entries;
  Entry& entry = entries[static_cast<size_t>(kind) * kDims + static_cast<size_t>(dim / 8)];
  std::call_once(entry.once,
                 [&] { entry.value = std::make_unique<const RopeFrequencies>(kind, dim); });
  return *entry.value;
}

}  // namespace

RopeFrequencies::RopeFrequencies(Rope::Kind kind, int64_t dim) {
  for (double* cosines : {step_cos, block_cos}) std::fill_n(cosines, kMaxPairs, 1.0);
  for (double* sines : {step_sin, block_sin}) std::fill_n(sines, kMaxPairs, 0.0);
  if (kind != Rope::Kind::kLine && kind != Rope::Kind::kGrid) return;
  // Both halves of a grid have the same frequencies.
  const int64_t pairs = dim / 2, distinct = kind == Rope::Kind::kGrid ? pairs / 2 : pairs;
  for (int64_t t = 0; t < pairs; ++t) {
    theta[t] = frequency(kind, t % distinct, dim);
    step_cos[t] = std::cos(theta[t]);
    step_sin[t] = std::sin(theta[t]);
    block_cos[t] = std::cos(static_cast<double>(kBlock) * theta[t]);
    block_sin[t] = std::sin(static_cast<double>(kBlock) * theta[t]);
  }
}

RopeAngles::RopeAngles(const Rope& of, int64_t dim)
    : rope(of), pairs(dim / 2), turns(&frequencies(of.kind, dim)) {}

}  // namespace mala::cpu
