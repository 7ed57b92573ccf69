// Headings and bars.
#include "bench/demo/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mala::bench {

namespace {

constexpr double kBarWidth = 48;

bool has_styles() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR") && terminal &&
         std::string_view(terminal) != "dumb";
}

}  // namespace

void print_heading(const std::string& text) {
  if (has_styles()) {
    std::printf("\n\033[1m%s\033[0m\n\n", text.c_str());
  } else {
    std::printf("\n%s\n%s\n\n", text.c_str(), std::string(text.size(), '-').c_str());
  }
}

std::string bar(double value, double longest) {
  const double marks = std::round(kBarWidth * value / longest);
  return std::string(static_cast<size_t>(std::clamp(marks, 1.0, kBarWidth)), '#');
}

}  // namespace mala::bench
