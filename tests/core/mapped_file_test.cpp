// Files as bytes, and every kind of thing that is no file.
#include "mala/core/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala {
namespace {

using test::refusal;
using test::says;

std::string message(const std::string& path) {
  return refusal([&] { MappedFile file(Source{"read", path}); });
}

TEST(MappedFile, ShowsTheBytes) {
  const test::TemporaryFolder folder;
  const MappedFile file(Source{"read", folder.write("a", std::string("one\0two", 7))});
  EXPECT_EQ(text_of(file.bytes()), std::string_view("one\0two", 7));
}

TEST(MappedFile, OutlivesTheName) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a", "kept");
  const MappedFile file(Source{"read", path});
  std::filesystem::remove(path);
  EXPECT_EQ(text_of(file.bytes()), "kept");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(MappedFile(Source{"read", folder.write("a", "")}).bytes().empty());
}

TEST(MappedFile, NamesWhatIsNoFile) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(says(message(folder.file("none")), "none: cannot be opened: No such file"));
  EXPECT_TRUE(says(message(folder.file("")), "is a folder; name a file in it"));
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(says(message(folder.file("pipe")), "pipe: is not a plain file"));
}

}  // namespace
}  // namespace mala
