// Two passes, along rows and then along columns, with eight-bit pixels between them.
#include "mala/data/image/resize.h"

#include <algorithm>
#include <cstring>

#include "mala/core/error.h"
#include "mala/data/image/resample_weights.h"
#include "mala/data/image/vectors.h"

namespace mala::data {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

// One row from `count` rows that lie `stride` bytes apart. Channels do not matter here. Works on
// pieces whose sums stay in the nearest cache.
MALA_EVERY_VECTOR
void blend_rows(const uint8_t* rows, int64_t stride, const int32_t* values, int64_t count,
                uint8_t* to) {
  constexpr int64_t kPiece = 1024;
  int32_t sums[kPiece];
  for (int64_t begin = 0; begin < stride; begin += kPiece) {
    const int64_t length = std::min(kPiece, stride - begin);
    for (int64_t i = 0; i < length; ++i) sums[i] = kHalf;
    for (int64_t k = 0; k < count; ++k) {
      const uint8_t* const row = rows + k * stride + begin;
      const int32_t value = values[k];
      for (int64_t i = 0; i < length; ++i) sums[i] += row[i] * value;
    }
    for (int64_t i = 0; i < length; ++i) to[begin + i] = rounded(sums[i]);
  }
}

// Copies pixel (i, j) to (j, i); steps count bytes, from one i to the next and from one j.
struct Turn {
  int64_t lines, columns;  // how many of each of i and j
  int64_t from_line, from_column, to_line, to_column;
};

void turn(const uint8_t* from, uint8_t* to, const Turn& how) {
  for (int64_t j = 0; j < how.columns; ++j) {
    for (int64_t i = 0; i < how.lines; ++i) {
      std::memcpy(to + i * how.to_line + j * how.to_column,
                  from + i * how.from_line + j * how.from_column, kChannels);
    }
  }
}

// Some rows at a time are turned into columns, so that columns can be blended as rows are: with
// all lanes of a vector, whatever the number of channels.
Image resize_width(const Image& image, int64_t width, Filter filter) {
  constexpr int64_t kRows = 32;
  const ResampleWeights weights = make_weights(image.size.width, width, filter);
  Image out(Size{width, image.size.height});
  std::vector<uint8_t> before(static_cast<size_t>(image.size.width * kRows * kChannels));
  std::vector<uint8_t> after(static_cast<size_t>(width * kRows * kChannels));
  for (int64_t y = 0; y < out.size.height; y += kRows) {
    const int64_t rows = std::min(kRows, out.size.height - y), column = rows * kChannels;
    turn(image.row(y), before.data(),
         {rows, image.size.width, image.size.width * kChannels, kChannels, kChannels, column});
    for (int64_t x = 0; x < width; ++x) {
      blend_rows(before.data() + weights.first[static_cast<size_t>(x)] * column, column,
                 weights.of(x), weights.count[static_cast<size_t>(x)], after.data() + x * column);
    }
    turn(after.data(), out.row(y), {rows, width, kChannels, column, width * kChannels, kChannels});
  }
  return out;
}

Image resize_height(const Image& image, int64_t height, Filter filter) {
  const ResampleWeights weights = make_weights(image.size.height, height, filter);
  Image out(Size{image.size.width, height});
  for (int64_t y = 0; y < height; ++y) {
    blend_rows(image.row(weights.first[static_cast<size_t>(y)]), image.size.width * kChannels,
               weights.of(y), weights.count[static_cast<size_t>(y)], out.row(y));
  }
  return out;
}

void check_sizes(Size from, Size size) {
  check(from.width > 0 && from.height > 0 && size.width > 0 && size.height > 0, "resize", "from ",
        from.width, " by ", from.height, " to ", size.width, " by ", size.height,
        " pixels; every side must be at least 1");
  const int64_t most = std::max(kMostPixels, from.width * from.height);
  check(has_up_to(size, most), "resize", "to ", size.width, " by ", size.height,
        " pixels, more than the limit of ", most, " in all; ask for fewer");
  check(from.width == size.width || has_up_to({size.width, from.height}, most), "resize", "takes ",
        size.width, " by ", from.height, " pixels on the way, more than the limit of ", most,
        " in all; resize the height alone first");
}

}  // namespace

Image resize(const Image& image, Size size, Filter filter) {
  const Size from = image.size;
  check_sizes(from, size);
  if (from == size) return image;
  if (from.width == size.width) return resize_height(image, size.height, filter);
  const Image wide = resize_width(image, size.width, filter);
  return from.height == size.height ? wide : resize_height(wide, size.height, filter);
}

}  // namespace mala::data
