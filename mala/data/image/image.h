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
