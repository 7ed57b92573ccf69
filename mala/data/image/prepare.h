// From a picture of any size to the numbers that a model takes.
#pragma once

#include <array>
#include <span>

#include "mala/data/image/image.h"

namespace mala::data {

// Sides in the same proportion, the shorter one as asked, the longer rounded down. Throws
// mala::Error when that is larger than the picture and than kMostPixels.
Size with_short_side(Size size, int64_t short_side);

// The middle of the picture. Throws mala::Error when it is smaller than that.
Image centre_crop(const Image& image, Size size);

// (level / 255 - mean) / deviation, for red, green and blue.
struct Normalization {
  std::array<float, kChannels> mean{0.485f, 0.456f, 0.406f};  // of ImageNet
  std::array<float, kChannels> deviation{0.229f, 0.224f, 0.225f};
};

enum class PixelOrder : uint8_t {
  kPlanes,  // (3, height, width)
  kPixels,  // (height, width, 3)
};

// `out` has as many numbers as the picture has levels. Throws mala::Error when it has not.
void normalize(const Image& image, const Normalization& normalization, PixelOrder order,
               std::span<float> out);

}  // namespace mala::data
