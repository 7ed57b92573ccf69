// The file that a reader is at, so that every refusal names it.
#pragma once

#include <string>
#include <string_view>

#include "mala/core/error.h"

namespace mala {

// Text from a file, fit for a message: in quotes, cut when long, without control characters.
std::string in_quotes(std::string_view text);

struct Source {
  const char* where;  // the public entry that reads
  std::string name;   // of the file

  // Throws "[where] name: parts..." unless ok.
  template <typename... Parts>
  void check(bool ok, const Parts&... parts) const {
    if (!ok) [[unlikely]]
      fail(str(parts...));
  }
  [[noreturn]] void fail(const std::string& what) const;
};

}  // namespace mala
