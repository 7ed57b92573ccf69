// The command line of attention_bench.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/support/measure.h"
#include "bench/support/sections.h"

namespace mala::bench {

struct Options {
  std::vector<const Section*> sections;
  Range range;  // what is empty, each section chooses
  MeasureOptions measure;
  int64_t threads = 0;  // 0: as many as torch takes by itself
  bool help = false;
  std::string json, csv, commit = "unknown";
};

// Throws mala::Error for a flag or a value that it does not know. argv[0] is the program.
Options parse_options(int argc, char** argv);

std::string_view help_text();

}  // namespace mala::bench
