// Numbers and text out of raw bytes, whatever their alignment. The caller has checked the bounds.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace mala {

using Bytes = std::span<const std::byte>;

// The unsigned number whose lowest byte comes first.
template <typename T>
T load_le(Bytes bytes, size_t offset) {
  T value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  } else {
    for (size_t i = sizeof(T); i-- > 0;) {
      value = static_cast<T>(value << 8 | static_cast<T>(bytes[offset + i]));
    }
  }
  return value;
}

// The unsigned number whose highest byte comes first.
template <typename T>
T load_be(Bytes bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | static_cast<T>(bytes[offset + i]));
  }
  return value;
}

// Whether `count` bytes lie within `size` from `offset` on; sums that overflow do not.
constexpr bool fits(uint64_t offset, uint64_t count, uint64_t size) {
  return offset <= size && count <= size - offset;
}

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline Bytes bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace mala
