// The bytes of a pickle, taken from front to back.
#pragma once

#include <string_view>

#include "mala/core/bytes.h"
#include "mala/core/source.h"

namespace mala::io {

class PickleInput {
 public:
  PickleInput(Bytes bytes, const Source& source) : bytes_(bytes), source_(source) {}

  Bytes take(uint64_t count) {
    source_.check(count <= bytes_.size() - at_, "its pickle ends early; it is cut short");
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }

  template <typename T>
  T number() {
    return load_le<T>(take(sizeof(T)), 0);
  }

  std::string_view text(uint64_t count) { return text_of(take(count)); }

  // Up to the end of the line, without it.
  std::string_view line() {
    const std::string_view rest = text_of(bytes_.subspan(at_));
    const size_t length = rest.find('\n');
    source_.check(length != rest.npos, "its pickle ends early; it is cut short");
    at_ += length + 1;
    return rest.substr(0, length);
  }

 private:
  Bytes bytes_;
  const Source& source_;
  uint64_t at_ = 0;
};

}  // namespace mala::io
