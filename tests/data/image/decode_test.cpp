// Small pictures of every kind: truncated at every byte, damaged, and beyond the limits.
#include "mala/data/image/decode.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::data {
namespace {

Image parse(const std::string& file, DecodeLimits limits = {}) {
  return decode_image(bytes_of_text(file), "file", limits);
}

class DecodeCorpus : public testing::TestWithParam<std::string> {
 protected:
  std::string file_ = test::read_text(MALA_TEST_CORPUS "/image/" + GetParam());
};

TEST_P(DecodeCorpus, HasItsSize) {
  const Image image = parse(file_);
  EXPECT_EQ(image.size, (Size{20, 12}));
  EXPECT_EQ(image.pixels.size(), 20u * 12 * 3);
}

// Up to the last bytes, which in some kinds say nothing: what is read is the whole picture.
TEST_P(DecodeCorpus, RefusesTruncations) {
  const Image whole = parse(file_);
  constexpr size_t kTrailer = 16;
  for (size_t length = 0; length < file_.size(); ++length) {
    SCOPED_TRACE(length);
    try {
      const Image image = parse(file_.substr(0, length));
      EXPECT_GE(length + kTrailer, file_.size());
      EXPECT_EQ(image.pixels, whole.pixels);
    } catch (const Error& error) {
      EXPECT_TRUE(test::says(error.what(), "[read_image] file: "));
    }
  }
}

TEST_P(DecodeCorpus, SurvivesDamage) {
  for (size_t at = 0; at < file_.size(); ++at) {
    for (const int flip : {0x01, 0x10, 0xFF}) {
      std::string file = file_;
      file[at] = static_cast<char>(file[at] ^ flip);
      try {
        const Image image = parse(file, {.max_pixels = 100'000});
        EXPECT_EQ(std::ssize(image.pixels), image.size.width * image.size.height * kChannels);
      } catch (const Error&) {
      }
    }
  }
}

TEST_P(DecodeCorpus, KeepsTheLimit) {
  const auto read = [&] { parse(file_, {.max_pixels = 239}); };
  EXPECT_TRUE(test::says(test::refusal(read), "pixels, more than the limit of 239 in all"));
  EXPECT_EQ(parse(file_, {.max_pixels = 240}).size, (Size{20, 12}));
}

std::vector<std::string> corpus() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(MALA_TEST_CORPUS "/image")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Each, DecodeCorpus, testing::ValuesIn(corpus()));

TEST(Decode, NamesTheFile) {
  const test::TemporaryFolder folder;
  const auto words = [](const std::string& path) {
    return test::refusal([&] { read_image(path); });
  };
  EXPECT_TRUE(test::says(words(folder.file("none.png")), "none.png: cannot be opened"));
  EXPECT_TRUE(test::says(words(folder.write("a.png", "")), "a.png: is empty"));
  EXPECT_TRUE(test::says(words(folder.write("b.jpg", "GIF89a")), "b.jpg: is a GIF picture"));
}

}  // namespace
}  // namespace mala::data
