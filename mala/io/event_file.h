// Curves for TensorBoard: a file of events in its format.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mala/core/append_file.h"

namespace mala::io {

using Scalars = std::vector<std::pair<std::string, double>>;

// "events.out.tfevents.1700000000.host.123", which TensorBoard looks for: one for each process and
// second. What an earlier run wrote stays.
std::string event_file_name(double seconds);

class EventFile {
 public:
  // `seconds` since 1970, here and below: when it happened.
  EventFile(const std::string& path, double seconds);

  void write(int64_t step, double seconds, const Scalars& scalars);

 private:
  void append_record(const std::string& event);

  AppendFile file_;
};

}  // namespace mala::io
