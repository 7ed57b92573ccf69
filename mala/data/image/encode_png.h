// Pictures to PNG files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mala/data/image/image.h"

namespace mala::data {

// The bytes of a PNG file, eight bits a channel. Throws mala::Error for a picture without pixels,
// with another number of levels than its size says, or with more pixels than kMostPixels.
std::vector<std::byte> encode_png(const Image& image);

// The same as a file, which appears whole or not at all. Throws mala::Error that names it.
void write_png(const std::string& path, const Image& image);

}  // namespace mala::data
