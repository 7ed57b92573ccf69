// Loops over rows that compilers turn into vectors.
#include "mala/data/augment/blends.h"

#include <algorithm>
#include <cstring>

#include "mala/data/augment/levels.h"
#include "mala/data/image/vectors.h"

namespace mala::data {
namespace {

// Levels of `row` away from those of `plain`.
MALA_EVERY_VECTOR
void blend_row(const uint8_t* plain, float factor, uint8_t* row, int64_t levels) {
  for (int64_t i = 0; i < levels; ++i) row[i] = blend_levels(plain[i], row[i], factor);
}

void grey_row(const uint8_t* row, int64_t width, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x, row += kChannels, to += kChannels) {
    std::memset(to, grey_of(row), kChannels);
  }
}

// Pillow's SMOOTH: the pixel five times and its neighbours once, by thirteen, rounded. The first
// and the last pixel stay.
MALA_EVERY_VECTOR
void smooth_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, int64_t levels,
                uint8_t* to) {
  constexpr int64_t kLeft = -kChannels, kRight = kChannels;
  for (int64_t i = kChannels; i < levels - kChannels; ++i) {
    const int sum = above[i + kLeft] + above[i] + above[i + kRight] + row[i + kLeft] + 5 * row[i] +
                    row[i + kRight] + below[i + kLeft] + below[i] + below[i + kRight];
    to[i] = static_cast<uint8_t>((2 * sum + 13) / 26);
  }
}

// The picture's border stays as it is.
Image smoothed(const Image& image) {
  Image out = image;
  for (int64_t y = 1; y + 1 < image.size.height; ++y) {
    smooth_row(image.row(y - 1), image.row(y), image.row(y + 1), image.size.width * kChannels,
               out.row(y));
  }
  return out;
}

}  // namespace

void adjust_colour(Image& image, double factor) {
  const int64_t levels = image.size.width * kChannels;
  std::vector<uint8_t> grey(static_cast<size_t>(levels));
  for (int64_t y = 0; y < image.size.height; ++y) {
    grey_row(image.row(y), image.size.width, grey.data());
    blend_row(grey.data(), static_cast<float>(factor), image.row(y), levels);
  }
}

void adjust_sharpness(Image& image, double factor) {
  const Image plain = smoothed(image);
  blend_row(plain.pixels.data(), static_cast<float>(factor), image.pixels.data(),
            std::ssize(image.pixels));
}

}  // namespace mala::data
