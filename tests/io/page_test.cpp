// The example of docs/files.md on weights, as it stands there.
#include <gtest/gtest.h>

#include <filesystem>

#include "mala/io/compare.h"
#include "mala/io/read_weights.h"
#include "tests/support/temporary_folder.h"

namespace {

std::string run_example() {
  const mala::io::Weights weights = mala::io::read_weights("MAViT_T.pth");
  for (const mala::io::Array& array : weights.arrays) {
    // array.name, array.type, array.shape, array.bytes
    EXPECT_EQ(array.bytes.size(), mala::io::bytes_of(array.shape, array.type));
  }
  const std::vector<mala::io::WantedArray> wanted{{"head.weight", {1000, 2048, 1, 1}}};
  const std::string difference = describe(compare(weights, wanted));
  return difference;
}

TEST(FilesPage, WeightsExampleRuns) {
  const mala::test::TemporaryFolder folder;
  folder.write("MAViT_T.pth", mala::test::read_text(MALA_TEST_CORPUS "/pth/plain.pth"));
  std::filesystem::current_path(folder.file(""));
  EXPECT_EQ(run_example(), "1 array is missing: 'head.weight'; 1 array is unexpected: 'w'");
}

}  // namespace
