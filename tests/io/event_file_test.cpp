// The file of events, byte by byte; tests/io/test_event_file.py reads one with TensorBoard's
// reader.
#include "mala/io/event_file.h"

#include <gtest/gtest.h>

#include "mala/io/crc32.h"
#include "tests/support/temporary_folder.h"

namespace mala::io {
namespace {

// The check value of CRC-32C, as its catalogues have it.
TEST(EventFile, SumIsCastagnolis) { EXPECT_EQ(crc32c(bytes_of_text("123456789")), 0xE3069283u); }

struct Record {
  std::string event;
  bool sums_are_right = false;
};

uint32_t unmasked(uint32_t masked) { return std::rotl(masked - 0xA282EAD8u, 15); }

std::vector<Record> records_of(const std::string& text) {
  std::vector<Record> records;
  const Bytes bytes = bytes_of_text(text);
  for (size_t at = 0; at < text.size();) {
    const auto length = static_cast<size_t>(load_le<uint64_t>(bytes, at));
    const bool length_is_right =
        unmasked(load_le<uint32_t>(bytes, at + 8)) == crc32c(bytes.subspan(at, 8));
    const Bytes event = bytes.subspan(at + 12, length);
    const bool event_is_right =
        unmasked(load_le<uint32_t>(bytes, at + 12 + length)) == crc32c(event);
    records.push_back({std::string(text_of(event)), length_is_right && event_is_right});
    at += 16 + length;
  }
  return records;
}

TEST(EventFile, RecordsCarryTheirSums) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file(event_file_name(1.5));
  {
    EventFile file(path, 1.5);
    file.write(300, 2.5, {{"loss", 0.25}});
  }
  const std::vector<Record> records = records_of(test::read_text(path));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_TRUE(records[0].sums_are_right && records[1].sums_are_right);
  EXPECT_NE(records[0].event.find("brain.Event:2"), std::string::npos);
  // wall_time 2.5, step 300, and a summary of one value: tag "loss", simple_value 0.25.
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\x04\x40"
      "\x10\xAC\x02"
      "\x2A\x0D\x0A\x0B\x0A\x04loss\x15\x00\x00\x80\x3E",
      27);
  EXPECT_EQ(records[1].event, expected);
}

}  // namespace
}  // namespace mala::io
