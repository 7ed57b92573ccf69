// Parts of pictures, whole and broken: a part is refused where the whole picture is, and only
// there.
#include "mala/data/image/region.h"

#include <gtest/gtest.h>

#include <optional>

#include "mala/data/image/decode.h"
#include "mala/data/random.h"
#include "tests/data/support/made_pictures.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::data {
namespace {

TEST(Crop, CopiesThePart) {
  const Image image = test::made_picture(1, {7, 5});
  const Image part = crop(image, {2, 1, {4, 3}});
  ASSERT_EQ(part.size, (Size{4, 3}));
  for (int64_t y = 0; y < 3; ++y) {
    for (int64_t i = 0; i < 4 * kChannels; ++i) {
      EXPECT_EQ(part.row(y)[i], image.row(y + 1)[i + 2 * kChannels]);
    }
  }
  EXPECT_EQ(crop(image, whole(image.size)).pixels, image.pixels);
}

TEST(Crop, RefusesWhatIsNotThere) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const Image image = test::made_picture(1, {7, 5});
  for (const Region& region :
       {Region{-1, 0, {1, 1}}, Region{0, 0, {8, 5}}, Region{3, 3, {2, 3}}, Region{0, 0, {0, 5}},
        Region{kHuge, 0, {kHuge, 1}}, Region{1, 1, {kHuge, kHuge}}}) {
    EXPECT_TRUE(test::says(test::refusal([&] { crop(image, region); }),
                           "do not lie within a picture of 7 by 5"));
  }
}

std::optional<Image> try_whole(const std::string& file) {
  try {
    return decode_image(bytes_of_text(file), "file");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Image> try_part(const std::string& file, Random& random) {
  try {
    return decode_region(bytes_of_text(file), "file", [&](Size size) {
      const Size part{1 + random.below(size.width), 1 + random.below(size.height)};
      return Region{random.below(size.width - part.width + 1),
                    random.below(size.height - part.height + 1), part};
    });
  } catch (const Error&) {
    return std::nullopt;
  }
}

class BrokenPart : public testing::TestWithParam<const char*> {};

TEST_P(BrokenPart, IsRefusedWhereTheWholeIs) {
  const std::string whole_file = test::read_text(str(MALA_TEST_CORPUS "/image/", GetParam()));
  ASSERT_FALSE(whole_file.empty());
  int read = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    Random random(3, i, Use::kPicture);
    std::string file = whole_file;
    for (int64_t changes = 1 + random.below(3); changes > 0; --changes) {
      file[static_cast<size_t>(random.below(std::ssize(file)))] = static_cast<char>(random.bits());
    }
    if (random.chance(0.2)) file.resize(static_cast<size_t>(random.below(std::ssize(file))));
    const bool is_read = try_whole(file).has_value();
    ASSERT_EQ(try_part(file, random).has_value(), is_read) << i;
    ++(is_read ? read : refused);
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 20);
}

INSTANTIATE_TEST_SUITE_P(Jpegs, BrokenPart,
                         testing::Values("plain.jpg", "grey.jpg", "ink.jpg", "progressive.jpg"));

}  // namespace
}  // namespace mala::data
