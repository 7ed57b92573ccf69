// New files appear whole or not at all.
#include "mala/core/output_file.h"

#include <gtest/gtest.h>

#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala {
namespace {

TEST(OutputFile, AppearsWhenCommitted) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a", "old");
  OutputFile file(Source{"write", path});
  file.write(bytes_of_text("new "));
  file.write(bytes_of_text("text"));
  EXPECT_EQ(test::read_text(path), "old");
  file.commit();
  EXPECT_EQ(test::read_text(path), "new text");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(OutputFile, LeavesNothingWhenGivenUp) {
  const test::TemporaryFolder folder;
  {
    OutputFile file(Source{"write", folder.file("a")});
    file.write(bytes_of_text("half"));
    EXPECT_EQ(folder.count(), 1u);
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST(OutputFile, TwoWritersDoNotMix) {
  const test::TemporaryFolder folder;
  OutputFile first(Source{"write", folder.file("a")}), second(Source{"write", folder.file("a")});
  first.write(bytes_of_text("first"));
  second.write(bytes_of_text("second"));
  second.commit();
  first.commit();
  EXPECT_EQ(test::read_text(folder.file("a")), "first");
  EXPECT_EQ(folder.count(), 1u);
}

// Of a writer that was killed. Whole files, and halves with another name, stay.
TEST(OutputFile, PartsOfSomeFilesAreRemoved) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a", "a.part-12-0", "ab.part-7-3", "b.part-1-0", "a.part"}) {
    folder.write(name, name);
  }
  remove_parts(folder.file(""), "a");
  EXPECT_EQ(folder.count(), 3u);
  for (const char* name : {"a", "b.part-1-0", "a.part"}) {
    EXPECT_EQ(test::read_text(folder.file(name)), name);
  }
  remove_parts(folder.file("none"), "a");  // where there is nothing to remove
}

TEST(OutputFile, NamesTheFileThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  const auto open_in_nowhere = [&] { OutputFile(Source{"write", folder.file("none/a")}); };
  EXPECT_TRUE(test::says(test::refusal(open_in_nowhere), "none/a: cannot be written: No such"));
  const auto replace_a_folder = [&] {
    std::filesystem::create_directory(folder.file("b"));
    OutputFile(Source{"write", folder.file("b")}).commit();
  };
  EXPECT_TRUE(test::says(test::refusal(replace_a_folder), "b: cannot be put in place"));
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace mala
