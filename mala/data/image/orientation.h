// How a camera was held: reading it from EXIF, and turning the picture upright.
#pragma once

#include "mala/core/bytes.h"
#include "mala/data/image/image.h"

namespace mala::data {

// From an EXIF block, with or without "Exif" before it. 1 (upright) where the block is broken or
// does not say: a picture is worth showing without.
int read_orientation(Bytes exif);

// Undoes orientations 2 to 8: mirrored, turned, or both.
Image upright(Image image, int orientation);

}  // namespace mala::data
