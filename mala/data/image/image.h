// A picture in memory: eight bits a channel, red, green, blue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mala::data {

inline constexpr int64_t kChannels = 3;

struct Size {
  int64_t width = 0, height = 0;

  bool operator==(const Size&) const = default;
};

// Of a picture, unless a caller says otherwise: it takes 300 MB.
inline constexpr int64_t kMostPixels = 100'000'000;

// Whether both sides are at least 1, and there are no more than `most` pixels. Sides may be any
// numbers.
constexpr bool has_up_to(Size size, int64_t most) {
  return size.width > 0 && size.height > 0 && size.width <= most / size.height;
}

struct Image {
  Size size;
  std::vector<uint8_t> pixels;  // (height, width, 3), row by row

  Image() = default;
  explicit Image(Size of)
      : size(of), pixels(static_cast<size_t>(of.width * of.height * kChannels)) {}

  uint8_t* row(int64_t y) { return pixels.data() + y * size.width * kChannels; }
  const uint8_t* row(int64_t y) const { return pixels.data() + y * size.width * kChannels; }
};

}  // namespace mala::data
