// The kind of a file is told by its contents.
#include "mala/io/read_weights.h"

#include <gtest/gtest.h>

#include "tests/io/safetensors_bytes.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::io {
namespace {

const std::string kSafetensors =
    safetensors(R"({"module.a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}})", "xy");

TEST(ReadWeights, TellsTheKindsApart) {
  const test::TemporaryFolder folder;
  const Weights safe = read_weights(folder.write("misnamed.pth", kSafetensors));
  EXPECT_EQ(text_of(safe.find("a")->bytes), "xy");
  const Weights checkpoint = read_weights(MALA_TEST_CORPUS "/pth/plain.pth");
  EXPECT_NE(checkpoint.find("w"), nullptr);
}

TEST(ReadWeights, NamesTheFile) {
  const test::TemporaryFolder folder;
  const auto words = [](const std::string& path, Copy copy = Copy::kTrained) {
    return test::refusal([&] { read_weights(path, copy); });
  };
  EXPECT_TRUE(test::says(words(folder.file("none")), "none: cannot be opened"));
  EXPECT_TRUE(test::says(words(folder.write("empty", "")), "empty: is empty"));
  EXPECT_TRUE(test::says(words(folder.write("text", "hello world")), "text: is no checkpoint"));
  EXPECT_TRUE(test::says(words(folder.write("safe", kSafetensors), Copy::kAveraged),
                         "one copy of the weights"));
}

// Whoever called read_weights has not heard of the readers below it.
TEST(ReadWeights, NamesItselfWhateverTheKind) {
  const std::string cut = kSafetensors.substr(0, kSafetensors.size() - 1);
  const std::string checkpoint = test::read_text(MALA_TEST_CORPUS "/pth/plain.pth");
  for (const std::string& file : {cut, checkpoint.substr(0, 100), std::string("hello world")}) {
    const auto read = [&] { parse_weights(bytes_of_text(file), "file"); };
    EXPECT_TRUE(test::says(test::refusal(read), "[read_weights] file: "));
  }
}

}  // namespace
}  // namespace mala::io
