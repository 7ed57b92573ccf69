// What a run measured, in its folder: metrics.jsonl and curves for TensorBoard.
#pragma once

#include <string>

#include "mala/io/event_file.h"

namespace mala::train {

class MetricsLog {
 public:
  // Goes on with the file that is there: lines of steps after `step` are of a run that was cut off,
  // and are taken out, since they come again.
  MetricsLog(const std::string& folder, int64_t step);

  // A line of JSON with the step, the kind ("step", "evaluation"), the time and the numbers; those
  // that are not finite are written as null.
  void write(const std::string& kind, int64_t step, const io::Scalars& numbers);

 private:
  AppendFile lines_;
  io::EventFile events_;
};

}  // namespace mala::train
