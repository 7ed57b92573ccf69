// What people see of a training, on stderr.
#pragma once

#include <chrono>

#include "mala/train/observer.h"

namespace mala::cli {

// From now on the first Ctrl-C, or SIGTERM, asks for an end; a second one ends at once.
void watch_for_stop();
// The signal that asked for it; 0 where none has.
int stop_signal();

// On a terminal one line that is written over again; in a log a line every few seconds.
// Evaluations and notices stay.
class TrainDisplay final : public train::Observer {
 public:
  // Only the first of several processes speaks, but for notices.
  explicit TrainDisplay(bool speaks);

  void on_step(const train::StepReport& report) override;
  void on_evaluation(const train::EvaluationReport& report) override;
  void on_notice(const std::string& text) override;
  bool should_stop() override { return stop_signal() != 0; }

 private:
  using Clock = std::chrono::steady_clock;

  void clear_line();

  bool speaks_, is_terminal_, has_line_ = false;
  Clock::time_point last_;
};

// "3:07:09", "12:05", "45 s"
std::string duration_text(double seconds);

}  // namespace mala::cli
