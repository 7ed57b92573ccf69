// The JSON header of a safetensors file, as its own small structure.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mala/io/weights.h"

namespace mala::io {

// One array as the header describes it; nothing has been compared with the file yet.
struct HeaderEntry {
  std::string name;
  std::string type;
  Shape shape;
  std::array<uint64_t, 2> offsets{};  // begin and end, from the first byte after the header
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Throws mala::Error for anything but {"name": {"dtype", "shape", "data_offsets"}, ...} with text
// under "__metadata__"; also for an entry that lacks a field, and for a key that comes twice.
SafetensorsHeader parse_safetensors_header(std::string_view json, const Source& source);

}  // namespace mala::io
