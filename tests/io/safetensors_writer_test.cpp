// What is written is read back, aligned, and never left half done.
#include <gtest/gtest.h>

#include "mala/io/safetensors.h"
#include "tests/io/cpu_seconds.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::io {
namespace {

using enum ElementType;

const std::string kData = "0123456789abcdef";

Array array(const char* name, ElementType type, Shape shape, size_t bytes) {
  return {name, type, std::move(shape), bytes_of_text(kData).first(bytes)};
}

TEST(SafetensorsWriter, ComesBackAndIsAligned) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a.safetensors");
  const std::vector<Array> arrays{array("byte", kUInt8, {3}, 3), array("b", kFloat64, {2}, 16),
                                  array("a \"\n", kBFloat16, {1, 1}, 2), array("c", kInt64, {}, 8),
                                  array("none", kFloat32, {0, 7}, 0)};
  write_safetensors(path, arrays, {{"made by", "a test"}});
  const Weights weights = read_safetensors(path);
  ASSERT_EQ(weights.arrays.size(), arrays.size());
  EXPECT_EQ(weights.metadata.at("made by"), "a test");
  for (const Array& wrote : arrays) {
    const Array* const read = weights.find(wrote.name);
    ASSERT_NE(read, nullptr) << wrote.name;
    EXPECT_EQ(read->type, wrote.type);
    EXPECT_EQ(read->shape, wrote.shape);
    EXPECT_EQ(text_of(read->bytes), text_of(wrote.bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read->bytes.data()) % bytes_of(read->type), 0u);
  }
  EXPECT_EQ(folder.count(), 1u);
}

TEST(SafetensorsWriter, RefusesWhatWouldNotComeBack) {
  const test::TemporaryFolder folder;
  const auto words = [&](std::vector<Array> arrays) {
    return test::refusal([&] { write_safetensors(folder.file("a"), arrays); });
  };
  EXPECT_TRUE(test::says(words({array("a", kFloat32, {2}, 4)}), "but has 4 bytes"));
  EXPECT_TRUE(test::says(words({array("a", kInt8, {-1}, 0)}), "'a' is (-1)"));
  const Array once = array("a", kInt8, {1}, 1);
  EXPECT_TRUE(test::says(words({once, once}), "two arrays have the name 'a'"));
  const Array wider = array("a", kInt16, {1}, 2), other = array("b", kInt8, {1}, 1);
  EXPECT_TRUE(test::says(words({once, other, wider}), "two arrays have the name 'a'"));
  EXPECT_TRUE(test::says(words({array(std::string(4097, 'n').c_str(), kInt8, {1}, 1)}), "4096"));
  EXPECT_TRUE(test::says(words({array("a", kInt8, Shape(65, 1), 1)}), "65 dimensions"));
  EXPECT_TRUE(test::says(words({array("__metadata__", kInt8, {1}, 1)}), "cannot be the name"));
  EXPECT_TRUE(test::says(words({array("\xFF", kInt8, {1}, 1)}), "not UTF-8"));
  const auto metadata = [&] { write_safetensors(folder.file("a"), {}, {{"key", "\xFF"}}); };
  EXPECT_TRUE(test::says(test::refusal(metadata), "not UTF-8"));
  EXPECT_EQ(folder.count(), 0u);
}

// Looking through all names for each of them takes a time that grows with their square.
TEST(SafetensorsWriter, TakesManyArrays) {
  const test::TemporaryFolder folder;
  std::vector<Array> arrays(150'000, array("", kInt8, {0}, 0));
  for (size_t i = 0; i < arrays.size(); ++i) arrays[i].name = "array" + std::to_string(i);
  const std::string path = folder.file("a.safetensors");
  EXPECT_LT(test::cpu_seconds([&] { write_safetensors(path, arrays); }), test::kLinearSeconds);
  EXPECT_EQ(read_safetensors(path).arrays.size(), arrays.size());
}

}  // namespace
}  // namespace mala::io
