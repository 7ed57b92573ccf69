// Every file of the corpus, whole and in pieces, through the same functions as the fuzzers call.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/fuzz/entries.h"
#include "tests/support/temporary_folder.h"

namespace mala::fuzz {
namespace {

class Replay : public testing::TestWithParam<Entry> {};

// Bytes on the heap, with not one behind them, so that a sanitizer sees a step too far.
void run(const Entry& entry, std::string_view text) {
  const std::vector<std::byte> bytes(bytes_of_text(text).begin(), bytes_of_text(text).end());
  entry.run(bytes);
}

TEST_P(Replay, EveryFileOfEveryKind) {
  size_t files = 0, own = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(MALA_TEST_CORPUS)) {
    if (!file.is_regular_file()) continue;
    SCOPED_TRACE(file.path().string());
    const std::string text = test::read_text(file.path().string());
    run(GetParam(), text);
    run(GetParam(), std::string_view(text).substr(0, text.size() / 2));
    run(GetParam(), std::string_view(text).substr(text.size() / 2));
    ++files;
    own += file.path().parent_path().filename() == GetParam().name;
  }
  EXPECT_GT(own, 0u);
  EXPECT_GT(files, own);
}

TEST_P(Replay, NothingAndNoise) {
  run(GetParam(), "");
  for (const char* text : {"\xFF\xD8", "PK\3\4", "PK\5\6", "P6", "\x89PNG\r\n\x1A\n"}) {
    run(GetParam(), text);
    run(GetParam(), text + std::string(200, '\xFF'));
    run(GetParam(), text + std::string(200, '\0'));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Replay, testing::ValuesIn(kEntries),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace mala::fuzz
