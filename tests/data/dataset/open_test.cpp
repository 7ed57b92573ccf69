// Folders, lists and shards as users have them, and what they get wrong.
#include "mala/data/dataset/open.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "mala/core/bytes.h"
#include "mala/data/dataset/cached.h"
#include "mala/data/dataset/renumbered.h"
#include "mala/data/image/encode_png.h"
#include "tests/data/support/made_pictures.h"
#include "tests/data/support/tar_files.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::data {
namespace {

using test::refusal;
using test::says;
using test::tar_end;
using test::tar_file;

std::string png(int64_t number) {
  const std::vector<std::byte> bytes = encode_png(test::made_picture(number, {5, 4}));
  return std::string(text_of(bytes));
}

class OpenImages : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& contents) {
    const std::string path = folder_.file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    return folder_.write(name, contents);
  }
  std::string at(const std::string& name) { return folder_.file(name); }

  test::TemporaryFolder folder_;
};

void expect_picture(const ImageSource& source, int64_t index, int64_t number, int64_t label) {
  EXPECT_EQ(source.read(index).pixels, test::made_picture(number, {5, 4}).pixels);
  EXPECT_EQ(source.label(index), label) << source.name(index);
}

TEST_F(OpenImages, FoldersAreClassesInTheOrderOfTheirNames) {
  put("train/dog/2.png", png(2));
  put("train/dog/1.PNG", png(1));
  put("train/cat/deep/er/3.png", png(3));
  put("train/dog/notes.txt", "no picture");
  put("train/.cache/4.png", png(4));
  put("train/dog/._1.png", "what a Mac leaves");
  const auto source = open_images(at("train"));
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(source->size(), 3);
  expect_picture(*source, 0, 3, 0);
  expect_picture(*source, 1, 1, 1);
  expect_picture(*source, 2, 2, 1);
  EXPECT_TRUE(says(source->name(1), "train/dog/1.PNG"));
}

TEST_F(OpenImages, ATestSetTakesTheClassesOfItsTrainingSet) {
  put("test/dog/1.png", png(1));
  std::filesystem::create_directories(at("test/cat"));
  const auto source = open_images(at("test"), {.classes = {"dog", "bird", "cat"}});
  EXPECT_EQ(source->classes().size(), 3u);
  expect_picture(*source, 0, 1, 0);
  EXPECT_TRUE(says(refusal([&] {
                     open_images(at("test"), {.classes = {"cat", "horse"}});
                   }),
                   "has a folder 'dog', which is none of the 2 classes"));
}

TEST_F(OpenImages, FoldersThatAreNoSet) {
  const auto words = [&](const std::string& name) {
    const std::string message = refusal([&] { open_images(at(name)); });
    EXPECT_TRUE(says(message, at(name)));
    return message;
  };
  EXPECT_TRUE(says(words("none"), "is neither a file nor a folder"));
  put("flat/1.png", png(1));
  EXPECT_TRUE(says(words("flat"), "has 1 pictures and no folders; it needs a folder for each"));
  put("parts/train/cat/1.png", png(1));
  put("parts/test/cat/1.png", png(1));
  EXPECT_TRUE(says(words("parts"), "name one of them, such as " + at("parts") + "/train"));
  put("set/cat/1.png", png(1));
  std::filesystem::create_directories(at("set/dog"));
  EXPECT_TRUE(says(words("set"), "the folder of class 'dog' has no pictures"));
  std::filesystem::remove_all(at("set/cat"));
  EXPECT_TRUE(says(words("set"), "'dog' has no pictures"));
}

TEST_F(OpenImages, FoldersThatMayNotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  put("set/cat/1.png", png(1));
  std::filesystem::permissions(at("set/cat"), std::filesystem::perms::none);
  EXPECT_TRUE(says(refusal([&] { open_images(at("set")); }), "cannot be listed"));
  std::filesystem::permissions(at("set/cat"), std::filesystem::perms::owner_all);
}

TEST_F(OpenImages, ListsHaveNumbersOrNames) {
  put("a b.png", png(1));
  put("sub/c.png", png(2));
  const auto tabs = open_images(
      put("list.txt", "a b.png\tgolden retriever\r\n# more\n\n" + at("sub/c.png") + "\tcat\n"));
  EXPECT_EQ(tabs->classes(), (std::vector<std::string>{"cat", "golden retriever"}));
  expect_picture(*tabs, 0, 1, 1);
  expect_picture(*tabs, 1, 2, 0);
  const auto numbers = open_images(put("list.csv", "a b.png,3\nsub/c.png,0"));
  EXPECT_EQ(numbers->classes(), (std::vector<std::string>{"0", "1", "2", "3"}));
  expect_picture(*numbers, 0, 1, 3);
  const auto blanks = open_images(put("list", "a b.png 1\n"), {.classes = {"x", "y"}});
  expect_picture(*blanks, 0, 1, 1);
}

TEST_F(OpenImages, ListsThatAreWrong) {
  const auto words = [&](const std::string& text, std::vector<std::string> classes = {}) {
    const std::string path = put("list.txt", text);
    return refusal([&] { open_images(path, {.classes = classes}); });
  };
  EXPECT_TRUE(says(words(""), "lists no pictures"));
  EXPECT_TRUE(says(words("# nothing\n"), "lists no pictures"));
  EXPECT_TRUE(says(words("a.png 1\nb.png\n"), "line 2: 'b.png' needs a path and a label"));
  EXPECT_TRUE(says(words("a.png 1\nb.png 12\n", {"x", "y"}),
                   "line 2 has label '12', which is none of the 2 classes nor a number below 2"));
  EXPECT_TRUE(says(words("a.png -1\n"), "line 1 has label -1"));
  EXPECT_TRUE(says(words("a.png 99999999999\n"), "line 1 has label 99999999999"));
  EXPECT_TRUE(says(words("a.png horse\n", {"cat"}), "has label 'horse'"));
  EXPECT_TRUE(says(words(std::string("a.png 1\0\n", 9)), "is no text"));
}

TEST_F(OpenImages, APictureMissingFromItsListIsNamedWhenRead) {
  const auto source = open_images(put("list.txt", "gone.png 0\n"));
  EXPECT_TRUE(says(refusal([&] { source->read(0); }), "gone.png: cannot be opened"));
}

TEST_F(OpenImages, ShardsWithLabelsBeside) {
  put("s/a-0.tar", tar_file("x/1.png", png(1)) + tar_file("x/1.cls", "2\n") + tar_end());
  put("s/a-1.tar", tar_file("2.cls", "0") + tar_file("2.seg.png", png(2)) +
                       tar_file("2.json", "{}") + tar_end());
  for (const char* name : {"s", "s/a-*.tar"}) {
    const auto source = open_images(at(name));
    EXPECT_EQ(source->classes().size(), 3u);
    ASSERT_EQ(source->size(), 2);
    expect_picture(*source, 0, 1, 2);
    expect_picture(*source, 1, 2, 0);
    EXPECT_TRUE(says(source->name(0), "a-0.tar:x/1.png"));
  }
}

TEST_F(OpenImages, ShardsWithFoldersWithin) {
  const auto source = open_images(put("a.tar", tar_file("train/dog/1.png", png(1)) +
                                                   tar_file("train/cat/2.png", png(2)) +
                                                   tar_file("train/cat/._2.png", "") + tar_end()));
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(source->size(), 2);
  expect_picture(*source, 0, 1, 1);
  expect_picture(*source, 1, 2, 0);
}

TEST_F(OpenImages, ShardsThatAreWrong) {
  const auto words = [&](const std::string& archive) {
    const std::string path = put("a.tar", archive);
    return refusal([&] { open_images(path); });
  };
  EXPECT_TRUE(says(words(tar_file("a.txt", "x") + tar_end()), "has no pictures"));
  EXPECT_TRUE(says(words(tar_file("a.png", png(1)) + tar_end()), "it needs 'a.cls' beside it or"));
  EXPECT_TRUE(says(words(tar_file("a.png", png(1)) + tar_file("b.cls", "1") + tar_end()),
                   "so it needs 'a.cls'"));
  EXPECT_TRUE(says(words(tar_file("a.cls", std::string(300, '1')) + tar_end()), "has 300 bytes"));
  EXPECT_TRUE(says(words(tar_file("a.png", png(1)) + tar_file("a.cls", "-3") + tar_end()),
                   "a.tar:a.png has label -3"));
  EXPECT_TRUE(says(words(tar_file("cat/a.png", png(1))), "is cut short"));
  EXPECT_TRUE(says(words(""), "is empty"));
  const auto broken = open_images(put("b.tar", tar_file("cat/a.png", "junk") + tar_end()));
  EXPECT_TRUE(says(refusal([&] { broken->read(0); }), "b.tar:cat/a.png: is no picture"));
}

TEST_F(OpenImages, ReadsAPartOfAPicture) {
  const auto source = open_images(put("a.tar", tar_file("cat/a.png", png(1)) + tar_end()));
  const Region region{1, 2, {3, 1}};
  EXPECT_EQ(source->read(0, [&](Size) { return region; }).pixels,
            crop(test::made_picture(1, {5, 4}), region).pixels);
}

TEST(CachedImages, ReadsEachPictureOnce) {
  auto made = std::make_unique<test::MadePictures>(4, Size{5, 4}, std::set<int64_t>{3});
  const test::MadePictures& source = *made;
  const CachedImages cached(std::move(made), 1'000'000);
  const Region region{1, 1, {2, 2}};
  for (int round = 0; round < 3; ++round) {
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(cached.read(i, [&](Size) { return region; }).pixels,
                crop(test::made_picture(i, {5, 4}), region).pixels);
    }
  }
  EXPECT_EQ(source.reads, 3);
  EXPECT_EQ(cached.kept_bytes(), 3 * 60);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(says(refusal([&] { cached.read(3); }), "picture 3: is broken"));
  }
}

TEST(CachedImages, KeepsNoMoreThanItMay) {
  const CachedImages cached(std::make_unique<test::MadePictures>(5, Size{5, 4}), 130);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(cached.read(i).pixels, test::made_picture(i, {5, 4}).pixels);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cached.kept_bytes(), 120);
}

TEST(Renumbered, ShowsTheSourceUnderOtherNumbers) {
  const test::MadePictures source(5, {5, 4});
  const Renumbered some(source, 3, [](int64_t i) { return 4 - 2 * i; });
  EXPECT_EQ(some.size(), 3);
  EXPECT_EQ(some.classes(), source.classes());
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(some.name(i), source.name(4 - 2 * i));
    expect_picture(some, i, 4 - 2 * i, source.label(4 - 2 * i));
  }
}

TEST_F(OpenImages, CachesWhenAsked) {
  put("set/cat/1.png", png(1));
  const auto source = open_images(at("set"), {.cache_bytes = 1000});
  expect_picture(*source, 0, 1, 0);
  std::filesystem::remove(at("set/cat/1.png"));
  expect_picture(*source, 0, 1, 0);
  EXPECT_TRUE(
      says(refusal([&] { open_images(at("set"), {.cache_bytes = -1}); }), "cache_bytes is -1"));
}

}  // namespace
}  // namespace mala::data
