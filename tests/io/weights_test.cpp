// Sizes, order and names of arrays.
#include "mala/io/weights.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/io/cpu_seconds.h"
#include "tests/support/refusals.h"

namespace mala::io {
namespace {

using enum ElementType;

Weights named(std::initializer_list<const char*> names) {
  Weights weights;
  for (const char* name : names) weights.arrays.push_back({name, kInt8, {0}, {}});
  return weights;
}

std::vector<std::string> names_in(const Weights& weights) {
  std::vector<std::string> names;
  for (const Array& array : weights.arrays) names.push_back(array.name);
  return names;
}

TEST(ElementType, NamesComeBack) {
  for (int i = 0; i <= static_cast<int>(kBool); ++i) {
    const ElementTypeNames& names = names_of(static_cast<ElementType>(i));
    EXPECT_EQ(static_cast<int>(names.type), i);
    EXPECT_EQ(type_of_safetensors(names.safetensors), names.type);
    EXPECT_EQ(type_of_torch(names.torch), names.type);
    if (names.torch_storage.empty()) continue;
    EXPECT_EQ(type_of_torch_storage(names.torch_storage), names.type);
  }
  EXPECT_FALSE(type_of_safetensors("F31").has_value());
  EXPECT_FALSE(type_of_torch_storage("").has_value());
}

TEST(Weights, BytesOfShapes) {
  EXPECT_EQ(bytes_of(Shape{}, kFloat64), 8u);
  EXPECT_EQ(bytes_of(Shape{2, 3}, kBFloat16), 12u);
  EXPECT_EQ(bytes_of(Shape{2, 0, 3}, kFloat32), 0u);
  EXPECT_FALSE(bytes_of(Shape{2, -1}, kFloat32).has_value());
  EXPECT_FALSE(bytes_of(Shape{int64_t{1} << 32, int64_t{1} << 31}, kInt8).has_value());
  EXPECT_FALSE(bytes_of(Shape{std::numeric_limits<int64_t>::max(), 0}, kInt16).has_value());
}

TEST(Weights, FindsByName) {
  Weights weights = named({"b", "c", "a"});
  sort_by_name(weights, Source{"test", "file"});
  EXPECT_EQ(names_in(weights), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(weights.find("b"), &weights.arrays[1]);
  EXPECT_EQ(weights.find("bb"), nullptr);
  EXPECT_EQ(weights.find("d"), nullptr);
}

TEST(Weights, RefusesOneNameTwice) {
  Weights weights = named({"b", "a", "b"});
  const auto sort = [&] { sort_by_name(weights, Source{"test", "file"}); };
  EXPECT_TRUE(test::says(test::refusal(sort), "[test] file: has two arrays of one name, 'b'"));
}

TEST(Weights, StripsThePrefixThatAllShare) {
  Weights all = named({"module.module.a", "module.module.b"});
  strip_module_prefix(all);
  EXPECT_EQ(names_in(all), (std::vector<std::string>{"a", "b"}));
  Weights some = named({"module.a", "b"});
  strip_module_prefix(some);
  EXPECT_EQ(names_in(some), (std::vector<std::string>{"module.a", "b"}));
  Weights none;
  strip_module_prefix(none);
  EXPECT_TRUE(none.arrays.empty());
  Weights unequal = named({"module.module.", "module.module.module.b"});
  strip_module_prefix(unequal);
  EXPECT_EQ(names_in(unequal), (std::vector<std::string>{"", "module.b"}));
  Weights compiled = named({"module._orig_mod.a", "module._orig_mod.ab"});
  strip_module_prefix(compiled);
  EXPECT_EQ(names_in(compiled), (std::vector<std::string>{"a", "ab"}));
  Weights mixed = named({"_orig_mod.module.a", "_orig_mod.model.b"});
  strip_module_prefix(mixed);
  EXPECT_EQ(names_in(mixed), (std::vector<std::string>{"module.a", "model.b"}));
}

// One step for each prefix would move the rest of the name each time.
TEST(Weights, StripsLongNamesInOneStep) {
  std::string name;
  for (int i = 0; i < 1'000'000; ++i) name += "module.";
  Weights weights = named({(name + "a").c_str()});
  EXPECT_LT(test::cpu_seconds([&] { strip_module_prefix(weights); }), test::kLinearSeconds);
  EXPECT_EQ(names_in(weights), std::vector<std::string>{"a"});
}

TEST(Weights, RefusesNamesOfMoreThanFourKilobytes) {
  const Source source{"test", "file"};
  check_name(std::string(4096, 'n'), source);
  const auto check_long = [&] { check_name(std::string(4097, 'n'), source); };
  const std::string words = test::refusal(check_long);
  EXPECT_TRUE(test::says(words, "nnn...' of 4097 bytes, at most 4096 are read"));
}

}  // namespace
}  // namespace mala::io
