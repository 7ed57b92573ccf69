// A part of a picture, chosen when its size is known.
#pragma once

#include <functional>

#include "mala/data/image/image.h"

namespace mala::data {

struct Region {
  int64_t left = 0, top = 0;
  Size size;

  bool operator==(const Region&) const = default;
};

constexpr Region whole(Size size) { return {0, 0, size}; }

// Which part of an upright picture of that size is wanted.
using ChooseRegion = std::function<Region(Size)>;

// Throws mala::Error unless the region has pixels and lies within the picture.
void check_region(const Region& region, Size size);

Image crop(const Image& image, const Region& region);

}  // namespace mala::data
