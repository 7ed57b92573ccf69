// Lines of progress, and signals that ask for an end.
#include "mala/cli/train_display.h"

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "mala/core/error.h"

namespace mala::cli {
namespace {

volatile sig_atomic_t received = 0;

void remember(int signal) { received = signal; }

}  // namespace

void watch_for_stop() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one ends the program
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() { return received; }

std::string duration_text(double seconds) {
  char text[64];
  if (!std::isfinite(seconds) || seconds > 1e9) return "long";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) {
    std::snprintf(text, sizeof(text), "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return text;
}

TrainDisplay::TrainDisplay(bool speaks) : speaks_(speaks), is_terminal_(isatty(STDERR_FILENO)) {}

void TrainDisplay::clear_line() {
  if (has_line_) std::fputs("\r\033[K", stderr);
  has_line_ = false;
}

void TrainDisplay::on_step(const train::StepReport& report) {
  const std::chrono::milliseconds pause(is_terminal_ ? 200 : 5000);
  const auto now = Clock::now();
  const bool is_last = report.step == report.steps;
  if (!speaks_ || (now - last_ < pause && !is_last)) return;
  last_ = now;
  clear_line();
  std::fprintf(
      stderr, "epoch %.2f of %lld, step %lld of %lld, loss %.4f, lr %.3g, %.4g/s, %s left%s",
      report.epoch, static_cast<long long>(report.epochs), static_cast<long long>(report.step),
      static_cast<long long>(report.steps), report.loss, report.lr, report.examples_per_second,
      duration_text(report.seconds_left).c_str(), is_terminal_ ? "" : "\n");
  has_line_ = is_terminal_;
  std::fflush(stderr);
}

void TrainDisplay::on_evaluation(const train::EvaluationReport& report) {
  if (!speaks_) return;
  clear_line();
  std::string text;
  for (const auto& [name, value] : report.metrics) text += str(", ", name, " ", value);
  std::fprintf(stderr, "epoch %.2f%s%s\n", report.epoch, text.c_str(),
               report.is_best ? " (best so far)" : "");
}

void TrainDisplay::on_notice(const std::string& text) {
  clear_line();
  std::fprintf(stderr, "mala: %s\n", text.c_str());
}

}  // namespace mala::cli
