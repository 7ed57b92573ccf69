// JPEGs that libjpeg would fill up with pixels of its own, after a warning alone.
#include <gtest/gtest.h>

#include <cstdio>   // jpeglib.h needs FILE
#include <cstdlib>  // and this frees what it allocates

// These want <cstdio> before them.
#include <jpeglib.h>

#include "mala/data/image/decode.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::data {
namespace {

Image parse(const std::string& file) { return decode_image(bytes_of_text(file), "file"); }

#if defined(C_ARITH_CODING_SUPPORTED) && defined(D_ARITH_CODING_SUPPORTED)

// 64 by 64 pixels of noise, in the coding that few programs write and libjpeg-turbo reads.
std::string arithmetic_jpeg() {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_width = info.image_height = 64;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  info.arith_code = TRUE;
  jpeg_start_compress(&info, TRUE);
  uint32_t noise = 1;
  while (info.next_scanline < info.image_height) {
    uint8_t row[64 * kChannels], *rows = row;
    for (uint8_t& level : row) level = static_cast<uint8_t>((noise = noise * 1664525u + 1u) >> 24);
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string file(reinterpret_cast<const char*>(bytes), count);
  std::free(bytes);
  return file;
}

// Most bytes mean some pixels or other in this coding; some of all fillings mean none.
TEST(Jpeg, RefusesABadArithmeticCode) {
  const std::string whole = arithmetic_jpeg();
  EXPECT_EQ(parse(whole).size, (Size{64, 64}));
  int refused = 0;
  for (int fill = 0; fill < 255; ++fill) {
    std::string file = whole;
    file.replace(file.size() / 2, 200, 200, static_cast<char>(fill));
    try {
      parse(file);
    } catch (const Error& error) {
      EXPECT_TRUE(test::says(error.what(), "bad arithmetic code"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

#endif

// Where scan `number` begins, counted from 0, and what comes behind its last byte.
std::pair<size_t, size_t> find_scan(const std::string& file, int number) {
  size_t begin = file.find("\xFF\xDA");
  for (int i = 0; i < number; ++i) begin = file.find("\xFF\xDA", begin + 2);
  size_t end = begin + 2;
  do {
    end = file.find('\xFF', end + 1);
  } while (file[end + 1] == '\0');
  return {begin, end};
}

// The bits that a lost scan had are missing from its coefficients, whatever refines them later.
TEST(Jpeg, RefusesAProgressionThatLacksAScan) {
  const std::string whole = test::read_text(MALA_TEST_CORPUS "/image/progressive.jpg");
  const auto [begin, end] = find_scan(whole, 1);
  std::string file = whole;
  file.erase(begin, end - begin);
  EXPECT_TRUE(test::says(test::refusal([&] { parse(file); }), "Inconsistent progression"));
}

}  // namespace
}  // namespace mala::data
