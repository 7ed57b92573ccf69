// Which pictures a name stands for.
#include "mala/data/image/find.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace mala::data {
namespace {

using Names = std::vector<std::string>;

class FindPictures : public testing::Test {
 protected:
  FindPictures() {
    std::filesystem::create_directories(folder_.file("deep/.git"));
    std::filesystem::create_directories(folder_.file("empty"));
    for (const char* name : {"b.png", "a.JPEG", "notes.txt", ".hidden.png", "deep/c.webp",
                             "deep/.git/d.png", "odd[1].png"}) {
      folder_.write(name, "");
    }
  }

  Names found(const std::string& name) const {
    Names names;
    for (const std::string& path : find_pictures(folder_.file(name)).paths) {
      names.push_back(std::filesystem::relative(path, folder_.file("")).string());
    }
    return names;
  }

  test::TemporaryFolder folder_;
};

TEST_F(FindPictures, FoldersGiveThoseBelow) {
  EXPECT_EQ(found(""), (Names{"a.JPEG", "b.png", "deep/c.webp", "odd[1].png"}));
  EXPECT_TRUE(found("empty").empty());
  EXPECT_NE(find_pictures(folder_.file("empty")).problem.find("no pictures"), std::string::npos);
}

TEST_F(FindPictures, PatternsGiveWhatFits) {
  EXPECT_EQ(found("*.png"), (Names{"b.png", "odd[1].png"}));
  EXPECT_EQ(found("d*"), (Names{"deep/c.webp"}));
  EXPECT_EQ(found("no*.txt"), (Names{"notes.txt"}));  // who names it means it
  const FoundPictures none = find_pictures(folder_.file("*.bmp"));
  EXPECT_TRUE(none.paths.empty());
  EXPECT_NE(none.problem.find("*.bmp"), std::string::npos);
}

TEST_F(FindPictures, NamesThatExistAreNoPatterns) {
  EXPECT_EQ(found("odd[1].png"), (Names{"odd[1].png"}));
  EXPECT_EQ(found("missing.png"), (Names{"missing.png"}));  // reading it will say so
}

TEST_F(FindPictures, FoldersThatCannotBeListedAreNamed) {
  const FoundPictures none = pictures_below(folder_.file("nowhere"));
  EXPECT_FALSE(none.is_whole);
  EXPECT_NE(none.problem.find("nowhere"), std::string::npos);
}

}  // namespace
}  // namespace mala::data
