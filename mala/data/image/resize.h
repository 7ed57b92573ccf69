// Resizing with antialias, to the bit as Pillow does it.
#pragma once

#include "mala/data/image/image.h"

namespace mala::data {

enum class Filter : uint8_t { kBilinear, kBicubic };

// Both sides of both sizes are at least 1, and the result has no more pixels than kMostPixels or
// than the picture itself; nor has the step between, as wide as the one and as high as the other.
// Throws mala::Error when that is not so.
Image resize(const Image& image, Size size, Filter filter = Filter::kBicubic);

}  // namespace mala::data
