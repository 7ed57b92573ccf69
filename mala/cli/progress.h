// How far a command has come, on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mala::cli {

// One line that is written over again, a few times a second; only for people, so that logs and
// pipes stay clean.
class Progress {
 public:
  // `what` is counted: "pictures".
  Progress(std::string what, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(int64_t done);
  // Takes the line away, so that something else can be written.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  int64_t total_;
  bool is_seen_, is_shown_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace mala::cli
