// Numbers from bytes, and sums that must not wrap.
#include "mala/core/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace mala {
namespace {

TEST(Bytes, LoadsNumbersInBothOrders) {
  const Bytes bytes = bytes_of_text(std::string_view("\x01\x02\x03\x04\x05\x06\x07\xF8\x09", 9));
  EXPECT_EQ(load_le<uint8_t>(bytes, 7), 0xF8);
  EXPECT_EQ(load_le<uint16_t>(bytes, 1), 0x0302);
  EXPECT_EQ(load_be<uint16_t>(bytes, 1), 0x0203);
  EXPECT_EQ(load_le<uint32_t>(bytes, 4), 0xF8070605u);
  EXPECT_EQ(load_be<uint32_t>(bytes, 4), 0x050607F8u);
  EXPECT_EQ(load_le<uint64_t>(bytes, 0), 0xF807060504030201u);
}

TEST(Bytes, FitsKnowsOverflows) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(fits(3, 5, 8));
  EXPECT_TRUE(fits(8, 0, 8));
  EXPECT_FALSE(fits(9, 0, 8));
  EXPECT_FALSE(fits(4, 5, 8));
  EXPECT_FALSE(fits(4, kMost, 8));
  EXPECT_FALSE(fits(kMost, 4, 8));
}

}  // namespace
}  // namespace mala
