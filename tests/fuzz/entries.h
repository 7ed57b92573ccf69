// What the fuzzers call and the tests replay: any bytes at all go in, and either something sound
// comes out or a mala::Error.
#pragma once

#include <array>

#include "mala/core/bytes.h"

namespace mala::fuzz {

void try_safetensors(Bytes bytes);
void try_pth(Bytes bytes);
void try_image(Bytes bytes);

struct Entry {
  const char* name;  // of its folder in tests/fuzz/corpus, too
  void (*run)(Bytes);
};
inline constexpr std::array<Entry, 3> kEntries{{
    {"safetensors", try_safetensors},
    {"pth", try_pth},
    {"image", try_image},
}};

}  // namespace mala::fuzz
