// Tar archives: all the ways to write a name, and all the ways to lie.
#include "mala/data/dataset/tar.h"

#include <gtest/gtest.h>

#include "tests/data/support/tar_files.h"
#include "tests/support/refusals.h"

namespace mala::data {
namespace {

using test::tar_end;
using test::tar_file;
using test::TarHeader;

std::vector<TarEntry> read(const std::string& archive) {
  return read_tar(bytes_of_text(archive), Source{"open_images", "a.tar"});
}

std::string refusal(const std::string& archive) {
  const std::string words = test::refusal([&] { read(archive); });
  EXPECT_TRUE(test::says(words, "[open_images] a.tar: "));
  return words;
}

TEST(Tar, ReadsFilesInOrder) {
  const std::string large(1000, 'x');
  const std::string archive = tar_file("cat/", "", '5') + tar_file("cat/a.jpg", large) +
                              tar_file("b.cls", "7") + tar_file("empty", "") + tar_end();
  const auto entries = read(archive);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "cat/a.jpg");
  EXPECT_EQ(text_of(entries[0].bytes), large);
  EXPECT_EQ(entries[1].name, "b.cls");
  EXPECT_EQ(text_of(entries[1].bytes), "7");
  EXPECT_TRUE(entries[2].bytes.empty());
}

TEST(Tar, ReadsEveryWayToWriteALongName) {
  const std::string name = std::string(150, 'd') + "/" + std::string(120, 'n') + ".jpg";
  const std::string record = " path=" + name + "\n";
  const std::string length = std::to_string(record.size() + 3);
  for (const std::string& before :
       {tar_file("././@LongLink", name + '\0', 'L'), tar_file("pax", length + record, 'x'),
        tar_file("pax", "11 mtime=1\n" + length + record, 'x')}) {
    const auto entries = read(before + tar_file("cut", "data") + tar_file("b", "c") + tar_end());
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].name, name);
    EXPECT_EQ(entries[1].name, "b");
  }
  const TarHeader split{.name = "n.jpg", .prefix = "some/folder"};
  EXPECT_EQ(read(split.text() + tar_end())[0].name, "some/folder/n.jpg");
  const TarHeader gnu{
      .name = "n.jpg", .magic = std::string("ustar  \0", 8), .prefix = "times and such"};
  EXPECT_EQ(read(gnu.text() + tar_end())[0].name, "n.jpg");
  const TarHeader old{.name = "n.jpg", .type = '\0', .magic = "", .prefix = ""};
  EXPECT_EQ(read(old.text() + tar_end())[0].name, "n.jpg");
}

TEST(Tar, ReadsSizesInEveryForm) {
  std::string block = TarHeader{.name = "a"}.text();
  block.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\3", 12));
  block = TarHeader::with_checksum(block) + test::padded("abc") + tar_end();
  EXPECT_EQ(text_of(read(block)[0].bytes), "abc");
  const std::string pax = tar_file("pax", "10 size=3\n", 'x');
  EXPECT_EQ(
      text_of(read(pax + TarHeader{.name = "a"}.text() + test::padded("abc") + tar_end())[0].bytes),
      "abc");
}

TEST(Tar, RefusesWhatIsCutShort) {
  const std::string archive = tar_file("a.jpg", std::string(700, 'x')) + tar_file("b", "y");
  EXPECT_TRUE(test::says(refusal(""), "is empty"));
  EXPECT_TRUE(test::says(refusal(archive), "ends without the mark of its end"));
  EXPECT_TRUE(
      test::says(refusal(archive.substr(0, 600)), "'a.jpg' has 700 bytes, and 88 are left"));
  // However it is cut, nothing is lost in silence.
  const std::string whole = archive + tar_end();
  EXPECT_EQ(read(whole).size(), 2u);
  for (size_t length = 0; length < archive.size() + 512; length += 7) {
    refusal(whole.substr(0, length));
  }
}

TEST(Tar, RefusesAbsurdHeaders) {
  const auto with_size = [](const std::string& field) {
    std::string block = TarHeader{.name = "a"}.text();
    block.replace(124, 12, field);
    return TarHeader::with_checksum(block) + tar_end();
  };
  EXPECT_TRUE(test::says(refusal(with_size("77777777777\0")), "is cut short: 'a' has 8589934591"));
  EXPECT_TRUE(test::says(refusal(with_size("-1234567890 ")), "the size of 'a' is no number"));
  EXPECT_TRUE(test::says(refusal(with_size("hello world ")), "is no number"));
  EXPECT_TRUE(test::says(refusal(with_size(std::string(12, ' '))), "is no number"));
  EXPECT_TRUE(test::says(refusal(with_size(std::string(12, '\xFF'))), "is no number"));
  EXPECT_TRUE(test::says(refusal(with_size('\x80' + std::string(11, '\xFF'))), "is no number"));
  EXPECT_TRUE(test::says(refusal(with_size(std::string("\x80\0\0\0", 4) + std::string(8, '\xFF'))),
                         "has 18446744073709551615 bytes"));
  std::string wrong = tar_file("a", "x") + tar_end();
  wrong[3] = '!';
  EXPECT_TRUE(test::says(refusal(wrong), "the header at byte 0 has a wrong checksum"));
}

TEST(Tar, RefusesAbsurdRecords) {
  for (const char* record : {"99 path=a\n", "0 path=a\n", "2 path\n", "path=a\n", "10 path=ab ",
                             "-4 path=a\n", "99999999999999999999 path=a\n", "4 a\n\n", "3 \n"}) {
    refusal(tar_file("pax", record, 'x') + tar_file("a", "b") + tar_end());
  }
  EXPECT_TRUE(
      test::says(refusal(tar_file("pax", "12 size=-33\n", 'x') + tar_end()), "a size is '-33'"));
  EXPECT_TRUE(test::says(refusal(tar_file("L", std::string(5000, 'n'), 'L') + tar_end()),
                         "a name of 5000 bytes"));
  const std::string endless = "5011 path=" + std::string(5000, 'n') + "\n";
  EXPECT_TRUE(
      test::says(refusal(tar_file("pax", endless, 'x') + tar_end()), "a name of 5000 bytes"));
}

TEST(Tar, RefusesOtherKinds) {
  EXPECT_TRUE(test::says(refusal("\x1F\x8B rest"), "is compressed; unpack it"));
  EXPECT_TRUE(test::says(refusal("BZh9 rest"), "is compressed"));
  EXPECT_TRUE(test::says(refusal(std::string(2000, 'x')), "wrong checksum"));
  EXPECT_TRUE(test::says(refusal(tar_file("a.jpg", "", '2') + tar_end()),
                         "'a.jpg' is no plain file but of type '2'"));
  EXPECT_TRUE(test::says(refusal(tar_file("a.jpg", "", 'S') + tar_end()), "of type 'S'"));
}

// Every byte of the headers changed to every kind of value: an error or an answer, never a crash.
TEST(Tar, SurvivesAnyByte) {
  const std::string archive =
      tar_file("pax", "10 size=3\n", 'x') + tar_file("a.jpg", "abc") + tar_end();
  for (size_t i = 0; i < archive.size(); ++i) {
    for (const char value : {'\0', '9', ' ', '\x80', '\xFF'}) {
      std::string changed = archive;
      changed[i] = value;
      for (const size_t header : {size_t{0}, size_t{1024}}) {
        const bool within = i >= header && i < header + 512;
        if (within) {
          changed.replace(header, 512, TarHeader::with_checksum(changed.substr(header, 512)));
        }
      }
      try {
        read(changed);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace mala::data
