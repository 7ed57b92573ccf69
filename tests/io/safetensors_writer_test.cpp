// What is written is read back, aligned, and never left half done.
#include <gtest/gtest.h>

#include "mala/io/safetensors.h"
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
  EXPECT_TRUE(test::says(words({once, once}), "two arrays have one name"));
  EXPECT_TRUE(test::says(words({array("__metadata__", kInt8, {1}, 1)}), "cannot be the name"));
  EXPECT_TRUE(test::says(words({array("\xFF", kInt8, {1}, 1)}), "not UTF-8"));
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace mala::io
