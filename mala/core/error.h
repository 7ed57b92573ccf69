// Errors a caller can act on: which call, what came, what is needed, what to try.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace mala {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Joins values into text; stands in for std::format, which GCC 12 lacks.
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Throws "[where] parts..." unless ok. For public entries, never for inner loops.
template <typename... Parts>
void check(bool ok, const char* where, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw Error(str("[", where, "] ", parts...));
}

}  // namespace mala
