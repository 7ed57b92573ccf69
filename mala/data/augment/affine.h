// Turning, shearing and moving pictures within their frame, as Pillow's transform does it.
#pragma once

#include <array>

#include "mala/data/image/image.h"
#include "mala/data/image/resize.h"

namespace mala::data {

using Colour = std::array<uint8_t, kChannels>;

// Where the pixel at (x, y) comes from: (xx x + xy y + x0, yx x + yy y + y0).
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

struct Frame {
  Filter filter = Filter::kBicubic;
  Colour fill{128, 128, 128};  // for what comes from outside
};

// Sums are in float where Pillow's are in double: a level may differ by one.
Image transform(const Image& image, const Affine& affine, const Frame& frame);

// About the middle, against the clock.
Affine rotation(double degrees, Size size);

}  // namespace mala::data
