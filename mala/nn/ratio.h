// What the paper says of the ratio of two weights when their query grows.
#pragma once

#include <cmath>

namespace mala::nn {

// Two keys A and B as one query sees them. A query that is `growth` times as long changes their
// ratio p to p^growth under softmax, leaves it under linear attention, and takes it to p_m under
// MALA (docs/math.md has the proof). InLine's follows from its definition.
struct RatioFormulas {
  double logit_gap = 0;     // how much higher softmax's logit of A is
  double x_a = 0, x_b = 0;  // scores over the number of keys
  double s = 0;             // the magnitude of the query
  double keys = 1;

  double softmax(double growth) const { return std::pow(std::exp(logit_gap), growth); }
  double linear() const { return x_a / x_b; }
  double inline_attention(double growth) const {
    const double shift = (growth * s - 1) / keys;
    return (growth * x_a - shift) / (growth * x_b - shift);
  }
  double mala(double growth) const {
    const double beta = 1 + 1 / s, gamma = s / keys;
    const double c = growth * beta / (beta + growth - 1);
    return (beta * x_a - c * gamma) / (beta * x_b - c * gamma);
  }
};

}  // namespace mala::nn
