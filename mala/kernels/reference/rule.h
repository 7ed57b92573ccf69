// The three rules with their slopes, and what each norm makes of them:
// out_i = c * gain_i * P_i - shift_i * mean(v).
#pragma once

#include "mala/kernels/attention.h"

namespace mala::reference {

// The two magnitudes of a query: s before the rotation, r after it. Also their gradients.
struct Magnitudes {
  double s = 0, r = 0;
};

// What a query's magnitudes turn into. Also its gradient.
struct Weighing {
  double gain = 0, shift = 0;
};

Weighing weigh(const AttentionOptions& options, Magnitudes m);

// The gradient of the magnitudes, from that of gain and shift.
Magnitudes weigh_backward(const AttentionOptions& options, Magnitudes m, Weighing gradient);

}  // namespace mala::reference
