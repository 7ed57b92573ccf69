// One line of the benchmark's tables.
#pragma once

#include <string>

#include "bench/support/case.h"

namespace mala::bench {

enum class Outcome { kTimed, kSkipped, kWrong };

struct Row {
  Case what;
  std::string impl;
  Outcome outcome = Outcome::kTimed;
  double ms = 0;        // of a pass: the median, where it was timed
  double limit_ms = 0;  // see limit.h
  double error = 0;     // against float64
  int64_t bytes = 0;    // scratch and state, where they are known
  std::string section = {};
  double ratio = 0;  // ms over those of the row that the section compares it with; 0: there is none
};

}  // namespace mala::bench
