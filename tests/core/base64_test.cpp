// The examples of RFC 4648, and bytes above 127.
#include "mala/core/base64.h"

#include <gtest/gtest.h>

namespace mala {
namespace {

TEST(Base64, WritesTheExamplesOfItsStandard) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : examples) EXPECT_EQ(to_base64(bytes_of_text(plain)), text);
}

TEST(Base64, TakesEveryByte) {
  EXPECT_EQ(to_base64(bytes_of_text("\xff\xfe\xfd\x80")), "//79gA==");
  EXPECT_EQ(to_base64(bytes_of_text(std::string_view("\0\0", 2))), "AAA=");
}

}  // namespace
}  // namespace mala
