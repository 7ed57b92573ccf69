// The feature maps phi and their slopes.
#pragma once

#include <algorithm>
#include <cmath>

#include "mala/kernels/attention.h"

namespace mala::reference {

inline double phi(Feature feature, double x) {
  switch (feature) {
    case Feature::kElu1:
      return std::max(x, 0.0) + std::exp(std::min(x, 0.0));
    case Feature::kRelu:
      return std::max(x, 0.0);
    case Feature::kExp:
      return std::exp(x);
    case Feature::kIdentity:
      break;
  }
  return x;
}

inline double phi_slope(Feature feature, double x) {
  switch (feature) {
    case Feature::kElu1:
      return std::exp(std::min(x, 0.0));
    case Feature::kRelu:
      return x > 0 ? 1.0 : 0.0;
    case Feature::kExp:
      return std::exp(x);
    case Feature::kIdentity:
      break;
  }
  return 1.0;
}

}  // namespace mala::reference
