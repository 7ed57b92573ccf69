// Messages about files name the file and print safely.
#include "mala/core/source.h"

#include <gtest/gtest.h>

namespace mala {
namespace {

TEST(Source, NamesTheEntryAndTheFile) {
  const Source source{"read_it", "a.bin"};
  source.check(true, "fine");
  try {
    source.check(false, "has ", 3, " bytes");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[read_it] a.bin: has 3 bytes");
  }
}

TEST(Source, QuotesWhatFilesSay) {
  EXPECT_EQ(in_quotes("layers.0"), "'layers.0'");
  EXPECT_EQ(in_quotes("a\x1B[2Jb\n"), "'a?[2Jb?'");
  EXPECT_EQ(in_quotes("größe"), "'größe'");
  EXPECT_EQ(in_quotes(std::string(1000, 'x')).size(), 125u);
}

}  // namespace
}  // namespace mala
