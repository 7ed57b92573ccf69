// What command lines have in common.
#pragma once

#include <charconv>
#include <sstream>
#include <string>
#include <vector>

#include "mala/core/error.h"

namespace mala::bench {

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

// Throws "[where] flag ..." unless the whole text is a number above 0.
template <typename T>
T positive_number(const char* where, const std::string& flag, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  check(error == std::errc{} && stop == end && value > 0, where, flag, " got '", text,
        "' and needs a number above 0");
  return value;
}

}  // namespace mala::bench
