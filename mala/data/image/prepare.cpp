// Crops and normalisation, as torchvision does them.
#include "mala/data/image/prepare.h"

#include <algorithm>
#include <limits>

#include "mala/core/error.h"
#include "mala/data/image/region.h"

namespace mala::data {
namespace {

// Half of the difference, halves to the even number: where torchvision begins its crop.
int64_t margin(int64_t whole, int64_t part) {
  const int64_t spare = whole - part, low = spare / 2;
  return spare % 2 == 0 ? low : low + low % 2;
}

// A level has 256 values, so each is worked out once.
using Levels = std::array<std::array<float, 256>, kChannels>;

Levels make_levels(const Normalization& normalization) {
  Levels levels;
  for (size_t c = 0; c < kChannels; ++c) {
    for (size_t level = 0; level < 256; ++level) {
      const float part = static_cast<float>(level) / 255.0f;
      levels[c][level] = (part - normalization.mean[c]) / normalization.deviation[c];
    }
  }
  return levels;
}

}  // namespace

Size with_short_side(Size size, int64_t short_side) {
  check(size.width > 0 && size.height > 0 && short_side > 0, "with_short_side", size.width, " by ",
        size.height, " to a side of ", short_side, "; every side must be at least 1");
  const bool upright = size.width <= size.height;
  const int64_t shorter = std::min(size.width, size.height);
  const int64_t longer = std::max(size.width, size.height);
  check(has_up_to({longer, short_side}, std::numeric_limits<int64_t>::max()), "with_short_side",
        size.width, " by ", size.height, " to a side of ", short_side,
        "; no picture has sides of that length");
  const int64_t other = short_side * longer / shorter;
  check(short_side <= shorter || has_up_to({other, short_side}, kMostPixels), "with_short_side",
        "a side of ", short_side, " makes the other ", other, ", more than the limit of ",
        kMostPixels, " pixels in all; ask for a shorter one");
  return upright ? Size{short_side, other} : Size{other, short_side};
}

Image centre_crop(const Image& image, Size size) {
  check(size.width > 0 && size.height > 0 && size.width <= image.size.width &&
            size.height <= image.size.height,
        "centre_crop", "the middle of ", size.width, " by ", size.height,
        " pixels does not lie within ", image.size.width, " by ", image.size.height,
        "; resize the picture first");
  const int64_t left = margin(image.size.width, size.width);
  const int64_t top = margin(image.size.height, size.height);
  return crop(image, {left, top, size});
}

void normalize(const Image& image, const Normalization& normalization, PixelOrder order,
               std::span<float> out) {
  check(out.size() == image.pixels.size(), "normalize", "room for ", out.size(),
        " numbers, the picture has ", image.pixels.size());
  const Levels levels = make_levels(normalization);
  const size_t pixels = image.pixels.size() / kChannels;
  const bool planes = order == PixelOrder::kPlanes;
  const size_t pixel_step = planes ? 1 : kChannels, channel_step = planes ? pixels : 1;
  for (size_t c = 0; c < kChannels; ++c) {
    float* const to = out.data() + c * channel_step;
    const uint8_t* const from = image.pixels.data() + c;
    for (size_t i = 0; i < pixels; ++i) to[i * pixel_step] = levels[c][from[i * kChannels]];
  }
}

}  // namespace mala::data
