// What a run tells whoever watches it, and the one thing that it asks.
#pragma once

#include <cstdint>
#include <string>

#include "mala/io/event_file.h"

namespace mala::train {

struct StepReport {
  int64_t step = 0, steps = 0;  // done, and of the whole run
  double epoch = 0;             // done, with its fraction
  int64_t epochs = 0;
  double loss = 0;  // mean since the last report, over all processes
  double lr = 0, gradient_norm = 0;
  double examples_per_second = 0;
  double seconds_left = 0;
};

struct EvaluationReport {
  int64_t step = 0;
  double epoch = 0;
  io::Scalars metrics;  // those of the averaged weights begin with "ema_"
  bool is_best = false;
};

// Called from the thread that trains: of several processes by the first, but for notices, which
// each has of its own data.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluation(const EvaluationReport&) {}
  virtual void on_saved(const std::string& /*path*/, int64_t /*step*/) {}
  virtual void on_notice(const std::string& /*text*/) {}
  // Asked after every step, of every process: true ends the run once it has been saved.
  virtual bool should_stop() { return false; }
};

}  // namespace mala::train
