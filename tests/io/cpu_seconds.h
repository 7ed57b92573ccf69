// How long something keeps the processor busy, so that a busy machine fails no test.
#pragma once

#include <ctime>

namespace mala::test {

// Far more than linear work on the sizes tested here takes, under a sanitizer too, and far less
// than quadratic work does.
constexpr double kLinearSeconds = 5.0;

template <typename Run>
double cpu_seconds(const Run& run) {
  const std::clock_t begin = std::clock();
  run();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace mala::test
