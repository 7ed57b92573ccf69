// EXIF orientations: read from both byte orders, broken blocks ignored, turns undone.
#include "mala/data/image/orientation.h"

#include <gtest/gtest.h>

#include <string>

namespace mala::data {
namespace {

using namespace std::string_literals;

int read(const std::string& exif) { return read_orientation(bytes_of_text(exif)); }

const std::string kLittle =
    "II*\0\x08\0\0\0\x02\0\x0F\x01\x02\0\x01\0\0\0x\0\0\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s;
const std::string kBig = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0"s;

TEST(Orientation, ReadsBothOrdersWithAndWithoutTheirName) {
  EXPECT_EQ(read(kLittle), 6);
  EXPECT_EQ(read(kBig), 8);
  EXPECT_EQ(read("Exif\0\0"s + kBig), 8);
}

TEST(Orientation, IsUprightWhereTheBlockIsBroken) {
  for (size_t length = 0; length < kBig.size() - 3; ++length) {
    EXPECT_EQ(read(kBig.substr(0, length)), 1) << length;
  }
  std::string value = kBig;
  for (const char wrong : {'\0', '\x09', '\xFF'}) {
    value[19] = wrong;
    EXPECT_EQ(read(value), 1);
  }
  std::string far = kBig;
  far.replace(4, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_EQ(read(far), 1);
}

// Two rows of three pixels, numbered; the upright picture by its rows.
std::string turned(int orientation) {
  Image image({3, 2});
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>('a' + i / kChannels);
  }
  const Image out = upright(image, orientation);
  std::string text;
  for (int64_t y = 0; y < out.size.height; ++y) {
    if (y > 0) text += '/';
    for (int64_t x = 0; x < out.size.width; ++x) text += static_cast<char>(out.row(y)[x * 3]);
  }
  return text;
}

TEST(Orientation, UndoesEveryTurn) {
  const char* const wanted[] = {"abc/def",  "abc/def",  "cba/fed",  "fed/cba",  "def/abc",
                                "ad/be/cf", "da/eb/fc", "fc/eb/da", "cf/be/ad", "abc/def"};
  for (int orientation = 0; orientation < 10; ++orientation) {
    EXPECT_EQ(turned(orientation), wanted[orientation]) << orientation;
  }
}

}  // namespace
}  // namespace mala::data
