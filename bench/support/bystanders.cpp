// Compares what all programs used, from /proc/stat, with what this one did.
#include "bench/support/bystanders.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

namespace mala::bench {

namespace {

constexpr double kSpoils = 0.2;  // of one core

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// All cores together: every state of /proc/stat but the fourth and fifth, which are idle.
double busy_seconds() {
  std::ifstream in("/proc/stat");
  std::string label;
  in >> label;
  double ticks = 0, value = 0;
  for (int state = 1; state <= 8 && in >> value; ++state) {
    if (state != 4 && state != 5) ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

Bystanders::Bystanders() : start_(clock_seconds()), busy_(busy_seconds()), own_(own_seconds()) {}

double Bystanders::cores() const {
  const double others = (busy_seconds() - busy_) - (own_seconds() - own_);
  return std::max(0.0, others / (clock_seconds() - start_));
}

void Bystanders::warn() const {
  if (cores() < kSpoils) return;
  std::fprintf(stderr, "other programs kept %.1f cores busy meanwhile: times are off\n", cores());
}

}  // namespace mala::bench
