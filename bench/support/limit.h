// What no implementation of a case can be faster than, measured in turns with them.
#pragma once

#include <functional>

#include "bench/support/case.h"

namespace mala::bench {

struct Limit {
  std::function<void()> burst;  // to be timed
  // The limit of a case of this form and shape, from the time of a burst; both in milliseconds.
  std::function<double(const Case& what, double burst_ms)> ms;
};

// The flop of a case at the multiply-add rate; for decode, the state read and written in place.
Limit find_limit(const Case& what);

}  // namespace mala::bench
