// Colour and sharpness: each pixel blended with its grey, or with its neighbours. They equal
// Pillow's.
#pragma once

#include "mala/data/image/image.h"

namespace mala::data {

void adjust_colour(Image& image, double factor);     // 0: grey, 1: as it is
void adjust_sharpness(Image& image, double factor);  // 0: smoothed, 1: as it is

}  // namespace mala::data
