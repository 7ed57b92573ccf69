// Random erasing: a rectangle of noise hides a part of the picture.
#pragma once

#include <optional>
#include <span>

#include "mala/data/image/region.h"
#include "mala/data/random.h"

namespace mala::data {

// 2 % to a third of the area, three times as wide as high to three times as high as wide; nothing
// when ten attempts do not fit. As timm draws it.
std::optional<Region> draw_erased(Size size, Random& random);

// Each number of the region anew, from a normal distribution: what normalised pixels look like.
// `pixels` are (height, width, 3).
void fill_with_noise(std::span<float> pixels, Size size, const Region& region, Random& random);

}  // namespace mala::data
