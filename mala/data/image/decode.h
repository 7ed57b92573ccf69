// Pictures from files: JPEG, PNG, WebP, PPM and PGM.
#pragma once

#include <string>

#include "mala/core/bytes.h"
#include "mala/data/image/image.h"
#include "mala/data/image/region.h"

namespace mala::data {

struct DecodeLimits {
  // A file of a few bytes may claim any size. A pixel takes three bytes, and more while it is read:
  // six or, with CMYK, eight for a progressive JPEG, whose scans are summed up as numbers of two
  // bytes; three again for a picture that is turned upright.
  int64_t max_pixels = kMostPixels;
};

// The picture, upright as its EXIF orientation says. Grey, palette and CMYK become RGB, sixteen
// bits become eight, alpha is dropped, of several frames the first is taken: what Pillow's
// exif_transpose and convert("RGB") give, but for grey of sixteen bits, which Pillow cuts off at
// 255. The kind is told by the contents. Throws mala::Error that names the file when it is broken,
// cut short, too large or of another kind.
Image read_image(const std::string& path, DecodeLimits limits = {});

// Whether the bytes begin as those of a picture that is read here do.
bool looks_like_picture(Bytes bytes);

// The same for a file in memory; messages call it `name`.
Image decode_image(Bytes bytes, const std::string& name, DecodeLimits limits = {});

// A part of it, equal to a crop of the whole. What lies outside is checked for damage all the same,
// but of a JPEG it is not worked out, which takes half the time.
Image decode_region(Bytes bytes, const std::string& name, const ChooseRegion& choose,
                    DecodeLimits limits = {});

}  // namespace mala::data
