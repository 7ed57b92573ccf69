// Writes the line of progress.
#include "mala/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace mala::cli {

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)), total_(total), is_seen_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::show(int64_t done) {
  constexpr std::chrono::milliseconds kPause{200};
  const auto now = Clock::now();
  if (!is_seen_ || now - last_ < kPause) return;
  last_ = now;
  is_shown_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / seconds;
  const double left = static_cast<double>(total_ - done) / std::max(rate, 1e-9);
  std::fprintf(stderr, "\r\033[K%lld of %lld %s, %.3g/s, %.0f s left", static_cast<long long>(done),
               static_cast<long long>(total_), what_.c_str(), rate, left);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!is_shown_) return;
  std::fputs("\r\033[K", stderr);
  is_shown_ = false;
}

}  // namespace mala::cli
