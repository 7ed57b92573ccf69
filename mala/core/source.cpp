// Messages about files, safe to print whatever the file holds.
#include "mala/core/source.h"

namespace mala {

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 120;
  std::string shown = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return shown + (text.size() > kLongest ? "...'" : "'");
}

void Source::fail(const std::string& what) const {
  throw Error(str("[", where, "] ", name, ": ", what));
}

}  // namespace mala
