// Zip files of every form that torch writes, and broken ones.
#include "mala/io/zip.h"

#include <gtest/gtest.h>

#include "tests/io/zip_bytes.h"
#include "tests/support/refusals.h"

namespace mala::io {
namespace {

const Source kSource{"test", "file"};

ZipEntries parse(const std::string& file) { return read_zip(bytes_of_text(file), kSource); }
std::string refused(const std::string& file) {
  return test::refusal([&] { parse(file); });
}

const std::vector<MadeEntry> kTwo{{"f/a", "first"}, {"f/b", ""}};

TEST(Zip, ReadsBothWidthsAndComments) {
  for (const ZipForm& form : {ZipForm{}, ZipForm{.wide = true}, ZipForm{.comment = "a comment"},
                              ZipForm{.comment = std::string(0xFFFF, '.')}}) {
    const std::string file = make_zip(kTwo, form);
    EXPECT_TRUE(looks_like_zip(bytes_of_text(file)));
    const ZipEntries entries = parse(file);
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(text_of(entries.at("f/a").bytes), "first");
    EXPECT_TRUE(entries.at("f/b").bytes.empty());
    EXPECT_EQ(text_of(contents("f/a", entries.at("f/a"), kSource)), "first");
  }
}

TEST(Zip, ChecksumsAreComparedWhereThereAreAny) {
  std::string file = make_zip(kTwo);
  file[file.find("first")] = 'F';
  const ZipEntries damaged = parse(file);
  const auto compare = [&] { contents("f/a", damaged.at("f/a"), kSource); };
  EXPECT_TRUE(test::says(test::refusal(compare), "'f/a' is not as it was written"));
  const std::string without = make_zip(kTwo, {.without_crc = true});
  EXPECT_EQ(text_of(contents("f/a", parse(without).at("f/a"), kSource)), "first");
}

TEST(Zip, RefusesEveryTruncation) {
  for (const bool wide : {false, true}) {
    const std::string file = make_zip(kTwo, {.wide = wide});
    for (size_t length = 0; length < file.size(); ++length) {
      EXPECT_TRUE(test::says(refused(file.substr(0, length)), "[test] file: ")) << length;
    }
  }
}

TEST(Zip, SurvivesEveryFlippedByte) {
  for (const bool wide : {false, true}) {
    const std::string whole = make_zip(kTwo, {.wide = wide});
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int flip : {0x01, 0x04, 0x80, 0xFF}) {
        std::string file = whole;
        file[at] = static_cast<char>(file[at] ^ flip);
        try {
          for (const auto& [name, entry] : parse(file)) {
            EXPECT_LE(text_of(entry.bytes).data() + entry.bytes.size(), file.data() + file.size());
          }
        } catch (const Error&) {
        }
      }
    }
  }
}

TEST(Zip, RefusesWhatTorchDoesNotWrite) {
  for (const MadeEntry& entry : {MadeEntry{"a", "x", 8}, MadeEntry{"a", "x", 0, 1}}) {
    const std::string file = make_zip({entry});
    const auto use = [&] { contents("a", parse(file).at("a"), kSource); };
    EXPECT_TRUE(test::says(test::refusal(use), "'a' is compressed or encrypted"));
  }
  EXPECT_TRUE(test::says(refused(make_zip({{"a", "x"}, {"a", "y"}})), "entry 'a' twice"));
  EXPECT_FALSE(looks_like_zip(bytes_of_text("PK\3")));
}

TEST(Zip, RefusesEntriesBeyondTheFile) {
  std::string file = make_zip({{"a", "x"}});
  const size_t directory = file.find("PK\1\2");
  std::string sizes = file;
  sizes.replace(directory + 20, 8, little_endian(0x7F0000007F000000, 8));
  EXPECT_TRUE(test::says(refused(sizes), "ends within 'a'"));
  std::string name = file;
  name[directory + 46] = 'b';
  EXPECT_TRUE(test::says(refused(name), "'b' by two names"));
  std::string place = file;
  place.replace(directory + 42, 4, little_endian(1, 4));
  EXPECT_TRUE(test::says(refused(place), "no zip entry where 'a' should be"));
}

// Entries within each other would be summed over and over, in a file of no size to speak of.
TEST(Zip, RefusesEntriesThatOverlap) {
  std::string file = make_zip({{"a", "x"}, {"b", std::string(1000, 'y')}});
  const size_t directory = file.find("PK\1\2");
  const std::string to_the_directory = little_endian(directory - file.find('x'), 4);
  file.replace(directory + 20, 8, to_the_directory + to_the_directory);
  EXPECT_TRUE(test::says(refused(file), "overlap"));
}

}  // namespace
}  // namespace mala::io
