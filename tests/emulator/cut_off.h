// How tensor cores end a sum.
#pragma once

#include <cmath>

namespace mala::emulator {

// What a float does not hold of a sum is cut off, not rounded.
inline float cut_off(double sum) {
  const auto nearest = static_cast<float>(sum);
  const bool is_larger = std::fabs(static_cast<double>(nearest)) > std::fabs(sum);
  return is_larger && std::isfinite(nearest) ? std::nextafter(nearest, 0.0f) : nearest;
}

}  // namespace mala::emulator
