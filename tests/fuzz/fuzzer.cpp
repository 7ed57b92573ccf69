// The entry that libFuzzer calls, for the reader that MALA_FUZZ_ENTRY names.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/entries.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mala::fuzz::MALA_FUZZ_ENTRY(std::as_bytes(std::span(data, size)));
  return 0;
}
