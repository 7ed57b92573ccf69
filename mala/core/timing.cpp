// The clock, the turns and the median.
#include "mala/core/timing.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace mala {

namespace {

constexpr size_t kFewestRuns = 3;
// A turn: one run that warms what the others cooled (caches, sleeping threads), then runs that
// count, for about so long.
constexpr double kTurnMilliseconds = 10;

double milliseconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

bool wants_more(const std::vector<double>& runs, const TimingLimits& limits) {
  if (static_cast<int64_t>(runs.size()) >= limits.repeats) return false;
  const double spent = std::accumulate(runs.begin(), runs.end(), 0.0);
  return runs.size() < kFewestRuns || spent < 1e3 * limits.seconds;
}

}  // namespace

std::vector<double> time_in_turns(const std::vector<std::function<void()>>& calls,
                                  const TimingLimits& limits) {
  std::vector<std::vector<double>> runs(calls.size());
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!wants_more(runs[i], limits)) continue;
      calls[i]();
      for (double spent = 0; spent < kTurnMilliseconds && wants_more(runs[i], limits);) {
        runs[i].push_back(milliseconds_of(calls[i]));
        spent += runs[i].back();
      }
      more = true;
    }
  }
  std::vector<double> medians;
  for (const auto& times : runs) medians.push_back(median(times));
  return medians;
}

}  // namespace mala
