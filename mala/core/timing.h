// Times several calls in turns, so that a disturbance of the machine meets them all alike.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace mala {

struct TimingLimits {
  int64_t repeats = 200;  // of each call
  double seconds = 2;     // for each call; three runs are made even where they take longer
};

// Milliseconds, the median of each call. Each turn begins with a run that does not count, so that
// every call is timed in its own steady state.
std::vector<double> time_in_turns(const std::vector<std::function<void()>>& calls,
                                  const TimingLimits& limits);

}  // namespace mala
