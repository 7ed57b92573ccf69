// Resizing with antialias, to the bit as Pillow does it.
#pragma once

#include "mala/data/image/image.h"

namespace mala::data {

enum class Filter : uint8_t { kBilinear, kBicubic };

// Both sides of both sizes are at least 1. Throws mala::Error when they are not.
Image resize(const Image& image, Size size, Filter filter = Filter::kBicubic);

}  // namespace mala::data
