// Random crops and mirroring.
#pragma once

#include "mala/data/augment/augmentation.h"
#include "mala/data/image/region.h"
#include "mala/data/random.h"

namespace mala::data {

// A part of the area between scale_min and scale_max, of a shape between ratio_min and ratio_max;
// after ten vain attempts the middle, as large as the shape allows. As torchvision draws it.
Region draw_resized_crop(Size size, const Augmentation& augmentation, Random& random);

// The picture moved by up to `padding` pixels each way, with black behind it.
Image draw_padded_crop(const Image& image, int64_t padding, Random& random);

void mirror(Image& image);  // left to right

}  // namespace mala::data
