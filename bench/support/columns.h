// What tables show of their rows.
#pragma once

#include <functional>
#include <string>

#include "bench/support/row.h"

namespace mala::bench {

struct Column {
  std::string title;
  std::function<std::string(const Row&)> text;
};

// A number as printf writes it.
std::string format(const char* pattern, double value);

// Flop of linear attention a second; softmax does other work, so its flop/s would mean nothing.
double gflops(const Row& row);
bool has_gflops(const Row& row);

// Figures.
namespace columns {

Column milliseconds();
Column microseconds();
Column nanoseconds_per_token();
Column rate();                          // GFLOP/s
Column share_of_limit(std::string of);  // "of peak"
Column times_as_long();                 // the ratio
Column times_faster();                  // its inverse
Column memory();                        // scratch and state, in KiB
Column state_rate();                    // the state read and written, GB/s

}  // namespace columns

}  // namespace mala::bench
