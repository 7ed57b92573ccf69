// What is written as PNG is read back to the bit, and what is no picture is refused.
#include "mala/data/image/encode_png.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "mala/data/image/decode.h"
#include "tests/support/refusals.h"

namespace mala::data {
namespace {

Image noisy(Size size) {
  Image image(size);
  uint32_t state = 1;
  for (uint8_t& level : image.pixels) {
    state = state * 1664525u + 1013904223u;
    level = static_cast<uint8_t>(state >> 24);
  }
  return image;
}

TEST(EncodePng, IsReadBackToTheBit) {
  for (const Size size : {Size{1, 1}, {1, 70}, {70, 1}, {33, 17}, {640, 480}}) {
    const Image image = noisy(size);
    const Image back = decode_image(encode_png(image), "memory");
    EXPECT_EQ(back.size, size);
    EXPECT_EQ(back.pixels, image.pixels) << size.width << " x " << size.height;
  }
}

TEST(EncodePng, MakesFlatPicturesSmall) {
  EXPECT_LT(encode_png(Image({1000, 1000})).size(), 10'000u);
}

TEST(EncodePng, WritesAFile) {
  const auto folder = std::filesystem::temp_directory_path() / "mala_encode_png_test";
  std::filesystem::create_directories(folder);
  const std::string path = folder / "noisy.png";
  write_png(path, noisy({20, 10}));
  EXPECT_EQ(read_image(path).pixels, noisy({20, 10}).pixels);
  std::filesystem::remove_all(folder);
}

TEST(EncodePng, RefusesWhatIsNoPicture) {
  EXPECT_TRUE(test::says(test::refusal([] { encode_png({}); }), "has 0 x 0 pixels"));
  Image torn({4, 4});
  torn.pixels.pop_back();
  EXPECT_TRUE(test::says(test::refusal([&] { encode_png(torn); }), "has 47 levels"));
  Image huge;
  huge.size = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_TRUE(test::says(test::refusal([&] { encode_png(huge); }), "at most 100000000"));
  EXPECT_TRUE(test::says(test::refusal([] {
                           write_png("/no/such/folder/a.png", Image({1, 1}));
                         }),
                         "/no/such/folder/a.png"));
}

}  // namespace
}  // namespace mala::data
