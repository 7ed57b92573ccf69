// Names of classes as lines and as JSON.
#include "mala/data/label_file.h"

#include <gtest/gtest.h>

#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::data {
namespace {

using Names = std::vector<std::string>;

class LabelFile : public testing::Test {
 protected:
  Names read(std::string_view text) const { return read_labels(folder_.write("labels", text)); }
  std::string refused(std::string_view text) const {
    return test::refusal([&] { read(text); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(LabelFile, ReadsLines) {
  EXPECT_EQ(read("cat\ndog"), (Names{"cat", "dog"}));
  EXPECT_EQ(read("  cat \r\n\r\nhot dog\n\n\n"), (Names{"cat", "", "hot dog"}));
}

TEST_F(LabelFile, ReadsJson) {
  EXPECT_EQ(read(R"( ["cat", "dog"])"), (Names{"cat", "dog"}));
  EXPECT_EQ(read(R"({"1": "dog", "0": "cat"})"), (Names{"cat", "dog"}));
  EXPECT_EQ(read(R"({"0": ["n1", "cat"], "1": ["n2", "dog"]})"), (Names{"cat", "dog"}));
}

TEST_F(LabelFile, RefusesWhatIsNoList) {
  EXPECT_NE(refused("").find("no labels"), std::string::npos);
  EXPECT_NE(refused("\n \n").find("no labels"), std::string::npos);
  EXPECT_NE(refused("[]").find("no labels"), std::string::npos);
  EXPECT_NE(refused("[1, 2]").find("needs to be a text"), std::string::npos);
  EXPECT_NE(refused("[\"a\"").find("begins like JSON"), std::string::npos);
  EXPECT_NE(refused(R"({"0": "a", "2": "b"})").find("none for class 1"), std::string::npos);
  EXPECT_NE(test::refusal([] { read_labels("/nowhere/labels"); }).find("/nowhere/labels"),
            std::string::npos);
}

}  // namespace
}  // namespace mala::data
