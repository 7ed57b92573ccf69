// The example of docs/files.md on pictures, as it stands there.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "mala/data/image/decode.h"
#include "mala/data/image/prepare.h"
#include "mala/data/image/resize.h"
#include "tests/support/temporary_folder.h"

namespace {

std::vector<float> run_example() {
  using namespace mala::data;
  const Image image = read_image("cat.jpg");  // (height, width, 3), eight bits, upright
  const Image small = resize(image, with_short_side(image.size, 256), Filter::kBicubic);
  std::vector<float> numbers(3 * 224 * 224);
  normalize(centre_crop(small, {224, 224}), Normalization{}, PixelOrder::kPlanes, numbers);
  return numbers;
}

TEST(FilesPage, PicturesExampleRuns) {
  const mala::test::TemporaryFolder folder;
  folder.write("cat.jpg", mala::test::read_text(MALA_TEST_CORPUS "/image/plain.jpg"));
  std::filesystem::current_path(folder.file(""));
  const std::vector<float> numbers = run_example();
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  EXPECT_GT(*low, -2.2f);  // black, in the units of ImageNet
  EXPECT_LT(*low, -1.0f);
  EXPECT_GT(*high, 0.5f);
  EXPECT_LT(*high, 2.7f);  // white
}

}  // namespace
