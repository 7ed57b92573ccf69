// Sheets: what stands where, and that nothing shows what it should not.
#include "mala/data/augment/sheet.h"

#include <gtest/gtest.h>

#include <set>

#include "mala/data/image/region.h"
#include "tests/data/support/made_pictures.h"
#include "tests/support/refusals.h"

namespace mala::data {
namespace {

constexpr int64_t kSide = 16, kGap = 4;

Image cell(const Sheet& sheet, int64_t row, int64_t column) {
  const int64_t step = kSide + kGap;
  return crop(sheet.image, {kGap + column * step, kGap + row * step, {kSide, kSide}});
}

TEST(Sheet, ShowsEachPictureFirstAsItIs) {
  const test::MadePictures source(9, {kSide, kSide});
  const Sheet sheet = draw_sheet(source, {.rows = 3, .columns = 4, .image_size = kSide});
  EXPECT_EQ(sheet.image.size, (Size{4 * 20 + 4, 3 * 20 + 4}));
  EXPECT_EQ(sheet.rows, (std::vector<std::string>{"picture 0", "picture 3", "picture 6"}));
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(cell(sheet, row, 0).pixels, test::made_picture(3 * row, {kSide, kSide}).pixels);
    std::set<std::vector<uint8_t>> different;
    for (int64_t column = 0; column < 4; ++column) {
      different.insert(cell(sheet, row, column).pixels);
    }
    EXPECT_EQ(different.size(), 4u);
  }
  EXPECT_EQ(sheet.image.row(0)[0], 255);
}

TEST(Sheet, ShowsEachAugmentationAlone) {
  const test::MadePictures source(5, {kSide, kSide});
  const Sheet sheet = draw_each(source, {.columns = 4, .image_size = kSide});
  ASSERT_EQ(sheet.rows.size(), 1u + 7 + 15);
  EXPECT_EQ(sheet.rows[0], "as they are");
  EXPECT_EQ(sheet.rows[3], "flip");
  for (int64_t row = 1; row < std::ssize(sheet.rows); ++row) {
    size_t changed = 0;
    for (int64_t i = 0; i < 4; ++i) {
      changed += cell(sheet, row, i).pixels != cell(sheet, 0, i).pixels;
    }
    EXPECT_GT(changed, 0u) << sheet.rows[static_cast<size_t>(row)];
  }
}

TEST(Sheet, RefusesWhatIsOutOfRange) {
  const test::MadePictures source(5, {8, 8}), none(0, {8, 8});
  EXPECT_TRUE(test::says(test::refusal([&] { draw_sheet(none, {}); }), "no pictures"));
  EXPECT_TRUE(test::says(test::refusal([&] { draw_sheet(source, {.rows = 0}); }), "rows is 0"));
  EXPECT_TRUE(
      test::says(test::refusal([&] { draw_each(source, {.columns = 999}); }), "columns is 999"));
  EXPECT_TRUE(
      test::says(test::refusal([&] { draw_sheet(source, {.image_size = 0}); }), "image_size is 0"));
}

}  // namespace
}  // namespace mala::data
