// What predict, eval, bench and explain are told alike: which model, where it works, and how.
#pragma once

#include "mala/cli/command.h"
#include "mala/tasks/classify.h"

namespace mala::cli {

struct WorkOptions {
  std::string device = "auto", dtype = "float32";
  int64_t threads = 0;  // 0: torch's own choice
};

struct VisionOptions {
  models::VisionRequest model;
  WorkOptions work;
  std::string labels;  // a file
  int64_t image_size = 0, batch = 16;
  bool averaged = false, quiet = false;
};

// --device, --dtype, --threads
void add_work_options(CLI::App& app, WorkOptions& options);

// --mixers
void add_mixers_option(CLI::App& app, std::string& mixers);

// Those, and --weights, --model, --mixers, --labels, --size, --batch, --ema, --quiet.
void add_vision_options(CLI::App& app, VisionOptions& options);

// The largest picture side and batch that are taken.
inline constexpr int64_t kLargestSide = 8192, kLargestBatch = 4096;

// Sets the threads. Throws UsageError for words that are wrong on any machine.
tasks::Placement place(const WorkOptions& options);

// Throws UsageError unless the name is empty or that of a model.
void check_model_name(const std::string& name);

// Loads what was asked for, and says on stderr what that is unless asked to be quiet; that weights
// are untrained is always said.
tasks::Classifier make_classifier(const VisionOptions& options);

}  // namespace mala::cli
