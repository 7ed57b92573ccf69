// The command line of attention_bench.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/support/case.h"

namespace mala::bench {

struct Options {
  std::vector<Shape> shapes;
  std::vector<Pass> passes;
  std::vector<std::string> impls;
  int64_t repeats = 200;
  double seconds = 2.0;  // for one implementation of one case
  int64_t threads = 0;   // 0: as many as torch takes by itself
  bool all = false;      // also what would take long
  bool help = false;
  std::string json, csv, commit = "unknown";
};

// Throws mala::Error for a flag or a value that it does not know. argv[0] is the program.
Options parse_options(int argc, char** argv);

std::string_view help_text();

}  // namespace mala::bench
