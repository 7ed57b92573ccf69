// Times several calls in turns, so that a disturbance of the machine meets them all alike.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace mala::bench {

struct TimingLimits {
  int64_t repeats = 50;  // of each call
  double seconds = 2;    // for each call; three runs are made even where they take longer
};

// Milliseconds, the median of each call, after one run that does not count.
std::vector<double> time_in_turns(const std::vector<std::function<void()>>& calls,
                                  const TimingLimits& limits);

}  // namespace mala::bench
