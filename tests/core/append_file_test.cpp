// Records at the end of a file.
#include "mala/core/append_file.h"

#include <gtest/gtest.h>

#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala {
namespace {

TEST(AppendFile, AddsToWhatIsThere) {
  const test::TemporaryFolder folder;
  const Source source{"test", folder.write("log", "one\n")};
  AppendFile(source).append(bytes_of_text("two\n"));
  AppendFile(source).append(bytes_of_text("three\n"));
  EXPECT_EQ(test::read_text(source.name), "one\ntwo\nthree\n");
}

TEST(AppendFile, SaysWhatCannotBeWritten) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("missing/log");
  const std::string message = test::refusal([&] { AppendFile({"test", path}); });
  EXPECT_TRUE(test::says(message, path));
  EXPECT_TRUE(test::says(message, "No such file"));
}

TEST(AppendFile, SaysThatTheDiskIsFull) {
  AppendFile full({"test", "/dev/full"});
  const std::string message = test::refusal([&] { full.append(bytes_of_text("x")); });
  EXPECT_TRUE(test::says(message, "No space left"));
}

}  // namespace
}  // namespace mala
