// Turns rows into figures.
#include "bench/support/columns.h"

#include <cstdio>

namespace mala::bench {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

double gflops(const Row& row) { return flop_count(row.what) / row.ms * 1e-6; }

bool has_gflops(const Row& row) { return row.impl != "sdpa"; }

namespace columns {

Column milliseconds() {
  return {"ms", [](const Row& row) { return format("%.3f", row.ms); }};
}

Column microseconds() {
  return {"us", [](const Row& row) { return format("%.1f", 1e3 * row.ms); }};
}

Column nanoseconds_per_token() {
  return {"ns/token", [](const Row& row) {
            return format("%.1f", 1e6 * row.ms / static_cast<double>(row.what.shape.tokens));
          }};
}

Column rate() {
  return {"GFLOP/s", [](const Row& row) {
            return has_gflops(row) ? format("%.1f", gflops(row)) : std::string();
          }};
}

Column share_of_limit(std::string of) {
  return {std::move(of), [](const Row& row) {
            return has_gflops(row) ? format("%.1f%%", 100 * row.limit_ms / row.ms) : std::string();
          }};
}

Column times_as_long() {
  return {"as long", [](const Row& row) {
            return row.ratio > 0 ? format("%.2fx", row.ratio) : std::string();
          }};
}

Column times_faster() {
  return {"speed", [](const Row& row) {
            return row.ratio > 0 ? format("%.2fx", 1 / row.ratio) : std::string();
          }};
}

Column memory() {
  return {"memory", [](const Row& row) {
            return row.bytes > 0 ? format("%.0f KiB", static_cast<double>(row.bytes) / 1024)
                                 : std::string();
          }};
}

Column state_rate() {
  return {"GB/s", [](const Row& row) {
            return format("%.1f", 2e-6 * static_cast<double>(row.bytes) / row.ms);
          }};
}

}  // namespace columns

}  // namespace mala::bench
