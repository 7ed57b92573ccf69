// The checksum against its known values and against one bit at a time.
#include "mala/io/crc32.h"

#include <gtest/gtest.h>

#include <string>

namespace mala::io {
namespace {

uint32_t bit_by_bit(std::string_view text) {
  uint32_t sum = ~0u;
  for (const char c : text) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

TEST(Crc32, KnownValues) {
  EXPECT_EQ(crc32({}), 0u);
  EXPECT_EQ(crc32(bytes_of_text("123456789")), 0xCBF43926u);
}

TEST(Crc32, EveryLengthAroundAStep) {
  std::string text;
  for (int length = 0; length < 40; ++length) {
    EXPECT_EQ(crc32(bytes_of_text(text)), bit_by_bit(text)) << length;
    text += static_cast<char>(length * 37 + 200);
  }
}

}  // namespace
}  // namespace mala::io
