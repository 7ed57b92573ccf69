// The command line of model_bench.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mala/core/dtypes.h"
#include "mala/core/timing.h"

namespace mala::bench {

struct ModelOptions {
  std::vector<std::string> models = {"mavit_t"};
  std::vector<int64_t> batches = {1};
  std::vector<DType> dtypes = {DType::kFloat32};
  int64_t height = 224, width = 224;
  std::string mixers;  // empty: as released
  TimingLimits timing = {.repeats = 100, .seconds = 5};
  int64_t threads = 0;  // 0: as many as torch takes by itself
  std::string device = "cpu";
  bool help = false;
  std::string json;
};

// Throws mala::Error for a flag or a value that it does not know. argv[0] is the program.
ModelOptions parse_model_options(int argc, char** argv);

std::string_view model_help_text();

}  // namespace mala::bench
