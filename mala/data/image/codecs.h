// One function for each kind of file; private to this folder and its tests.
#pragma once

#include "mala/core/bytes.h"
#include "mala/core/source.h"
#include "mala/data/image/decode.h"
#include "mala/data/image/image.h"

namespace mala::data {

struct Decoded {
  Image image;
  int orientation = 1;  // as EXIF counts them, 1 to 8
};

Decoded decode_jpeg(Bytes bytes, const Source& source, DecodeLimits limits);
Decoded decode_png(Bytes bytes, const Source& source, DecodeLimits limits);
Decoded decode_webp(Bytes bytes, const Source& source, DecodeLimits limits);
Decoded decode_pnm(Bytes bytes, const Source& source, DecodeLimits limits);

// An upright part of the picture.
Image decode_jpeg_region(Bytes bytes, const Source& source, DecodeLimits limits,
                         const ChooseRegion& choose);

// Throws unless there are pixels, and no more than the limit. Sizes may be any number.
void check_size(Size size, const Source& source, DecodeLimits limits);

}  // namespace mala::data
