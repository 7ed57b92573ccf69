// Compares, then times: from cases to rows.
#pragma once

#include <string>
#include <vector>

#include "bench/support/row.h"
#include "mala/core/timing.h"

namespace mala::bench {

// A case, and who takes part.
struct Contest {
  Case what;
  std::vector<std::string> impls;
};

struct MeasureOptions {
  TimingLimits timing;
  bool all = false;  // also softmax where it takes many seconds a run
};

// Results that are right are timed in turns with each other and with the limit, all contests
// together. They have one shape, and all or none of them decode.
std::vector<Row> measure(const std::vector<Contest>& contests, const MeasureOptions& options);

}  // namespace mala::bench
