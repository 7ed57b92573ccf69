// EXIF is a TIFF directory of numbers; the orientation is one of them.
#include "mala/data/image/orientation.h"

#include <cstring>

namespace mala::data {
namespace {

// Numbers of a TIFF block in the order it declares; 0 beyond its end.
struct Tiff {
  Bytes bytes;
  bool big_endian;

  uint32_t u16(uint64_t at) const {
    if (!fits(at, 2, bytes.size())) return 0;
    return big_endian ? load_be<uint16_t>(bytes, at) : load_le<uint16_t>(bytes, at);
  }
  uint32_t u32(uint64_t at) const {
    if (!fits(at, 4, bytes.size())) return 0;
    return big_endian ? load_be<uint32_t>(bytes, at) : load_le<uint32_t>(bytes, at);
  }
};

// Where the pixels of the upright picture come from: whether rows become columns, and which axes
// of the stored picture run backwards.
struct Turn {
  bool swaps, flips_x, flips_y;
};

constexpr Turn kTurns[] = {
    {false, false, false}, {false, true, false}, {false, true, true}, {false, false, true},
    {true, false, false},  {true, false, true},  {true, true, true},  {true, true, false},
};

}  // namespace

int read_orientation(Bytes exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  if (text_of(exif).starts_with(kPrefix)) exif = exif.subspan(kPrefix.size());
  const bool big_endian = text_of(exif).starts_with("MM");
  if (!big_endian && !text_of(exif).starts_with("II")) return 1;
  const Tiff tiff{exif, big_endian};
  if (tiff.u16(2) != 42) return 1;
  constexpr uint32_t kOrientationTag = 0x0112, kShort = 3;
  const uint64_t directory = tiff.u32(4);
  const uint32_t entries = tiff.u16(directory);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (tiff.u16(entry) != kOrientationTag) continue;
    const uint32_t value = tiff.u16(entry + 2) == kShort ? tiff.u16(entry + 8) : 0;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const Turn turn = kTurns[orientation - 1];
  const auto [width, height] = image.size;
  Image out(turn.swaps ? Size{height, width} : image.size);
  // Bytes from one pixel of the stored picture to the next along its axes.
  const int64_t step_x = turn.flips_x ? -kChannels : kChannels;
  const int64_t step_y = (turn.flips_y ? -width : width) * kChannels;
  const uint8_t* const first =
      image.row(turn.flips_y ? height - 1 : 0) + (turn.flips_x ? (width - 1) * kChannels : 0);
  const int64_t across = turn.swaps ? step_y : step_x, down = turn.swaps ? step_x : step_y;
  uint8_t* to = out.pixels.data();
  for (int64_t y = 0; y < out.size.height; ++y) {
    const uint8_t* from = first + y * down;
    for (int64_t x = 0; x < out.size.width; ++x, from += across, to += kChannels) {
      std::memcpy(to, from, kChannels);
    }
  }
  return out;
}

}  // namespace mala::data
