// The way out of C libraries that report errors by jumping.
#pragma once

#include <csetjmp>
#include <cstdio>

namespace mala::data {

// What a library's error function needs at hand: where to jump, and room for its words.
struct CodecErrors {
  std::jmp_buf way_out;
  char words[256] = "";

  void set_words(const char* text) { std::snprintf(words, sizeof words, "%s", text); }
};

// Whether `calls` came to its end. It may call into the library and touch plain values alone: a
// jump runs no destructors on its way.
template <typename Calls>
bool completes(CodecErrors& errors, const Calls& calls) {
  if (setjmp(errors.way_out) != 0) return false;
  calls();
  return true;
}

}  // namespace mala::data
