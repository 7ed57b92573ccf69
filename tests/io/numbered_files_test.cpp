// Files by number: which stay, which go, and what is none of our business.
#include "mala/io/numbered_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::io {
namespace {

TEST(NumberedFiles, KeepsTheLast) {
  const test::TemporaryFolder folder;
  const NumberedFiles files(folder.file("a/b"));
  for (const int64_t number : {7, 100, 8}) {
    folder.write("a/b/" + std::filesystem::path(files.path_of(number)).filename().string(), "x");
  }
  folder.write("a/b/step_x.safetensors", "other");
  folder.write("a/b/model.safetensors", "other");
  folder.write("a/b/step_0000000101.safetensors.part-12-0", "half");
  EXPECT_EQ(files.numbers(), (std::vector<int64_t>{7, 8, 100}));
  files.keep_last(2);
  EXPECT_EQ(files.numbers(), (std::vector<int64_t>{8, 100}));
  files.remove_parts();
  const std::filesystem::directory_iterator rest(folder.file("a/b"));
  EXPECT_EQ(std::distance(begin(rest), end(rest)), 4);  // two of ours, two of others
}

TEST(NumberedFiles, SaysWhichFolderCannotBeMade) {
  const test::TemporaryFolder folder;
  const std::string taken = folder.write("file", "x");
  EXPECT_TRUE(test::says(test::refusal([&] { NumberedFiles files(taken); }), taken));
  EXPECT_TRUE(test::says(test::refusal([&] { NumberedFiles files(taken + "/in"); }), taken));
}

}  // namespace
}  // namespace mala::io
