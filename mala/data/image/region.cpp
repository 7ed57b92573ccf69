// Cutting a part out of a picture.
#include "mala/data/image/region.h"

#include <cstring>

#include "mala/core/error.h"

namespace mala::data {

void check_region(const Region& region, Size size) {
  const auto [left, top, part] = region;
  check(left >= 0 && top >= 0 && part.width > 0 && part.height > 0 && left <= size.width &&
            top <= size.height && part.width <= size.width - left &&
            part.height <= size.height - top,
        "crop", part.width, " by ", part.height, " pixels from (", left, ", ", top,
        ") on do not lie within a picture of ", size.width, " by ", size.height);
}

Image crop(const Image& image, const Region& region) {
  check_region(region, image.size);
  if (region == whole(image.size)) return image;
  Image out(region.size);
  for (int64_t y = 0; y < region.size.height; ++y) {
    std::memcpy(out.row(y), image.row(region.top + y) + region.left * kChannels,
                static_cast<size_t>(region.size.width * kChannels));
  }
  return out;
}

}  // namespace mala::data
