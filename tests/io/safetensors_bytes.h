// safetensors files by hand, right and wrong.
#pragma once

#include <string>

namespace mala::io {

inline std::string little_endian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
  return text;
}

inline std::string safetensors(const std::string& header, const std::string& data = "") {
  return little_endian(header.size(), 8) + header + data;
}

}  // namespace mala::io
