// The example of docs/data.md, as it stands there.
#include <gtest/gtest.h>

#include <filesystem>

#include "mala/data/batches.h"
#include "mala/data/dataset/open.h"
#include "mala/data/image/encode_png.h"
#include "tests/data/support/made_pictures.h"
#include "tests/support/temporary_folder.h"

namespace {

int64_t run_example() {
  int64_t pictures = 0;
  using namespace mala::data;
  const auto source = open_images("flowers/train", {.cache_bytes = 1 << 30});
  BatchOptions options{.batch_size = 64, .image_size = 224, .seed = 1, .epoch = 0};
  options.augmentation = Augmentation{.rand_augment = "m9-mstd0.5-inc1", .erase = 0.25};
  ImageBatches batches(*source, options);
  while (const auto batch = batches.next()) {
    // batch->pixels (count, 224, 224, 3), batch->labels, batch->skipped
    pictures += batch->count;
  }
  return pictures;
}

TEST(Page, ExampleOnDataRuns) {
  const mala::test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("flowers/train/rose"));
  for (int i = 0; i < 64; ++i) {
    mala::data::write_png(folder.file("flowers/train/rose/" + std::to_string(i) + ".png"),
                          mala::test::made_picture(i, {30, 20}));
  }
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.file(""));
  const int64_t pictures = run_example();
  std::filesystem::current_path(before);
  EXPECT_EQ(pictures, 64);
}

}  // namespace
