// safetensors: what is right is read, and every lie of a header is refused with a reason.
#include "mala/io/safetensors.h"

#include <gtest/gtest.h>

#include "tests/io/safetensors_bytes.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::io {
namespace {

Weights parse(const std::string& file) { return parse_safetensors(bytes_of_text(file), "file"); }

const std::string kTwoArrays =
    safetensors(R"({"__metadata__":{"format":"pt"},)"
                R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                R"("a":{"dtype":"I8","shape":[1,3],"data_offsets":[8,11]}}  )",
                "01234567abc");

TEST(Safetensors, ReadsArraysInOrderOfName) {
  const Weights weights = parse(kTwoArrays);
  ASSERT_EQ(weights.arrays.size(), 2u);
  EXPECT_EQ(weights.arrays[0].name, "a");
  EXPECT_EQ(weights.arrays[0].type, ElementType::kInt8);
  EXPECT_EQ(weights.arrays[0].shape, (Shape{1, 3}));
  EXPECT_EQ(text_of(weights.arrays[0].bytes), "abc");
  EXPECT_EQ(text_of(weights.arrays[1].bytes), "01234567");
  EXPECT_EQ(weights.metadata.at("format"), "pt");
}

TEST(Safetensors, ReadsEmptyFilesAndArraysAndScalars) {
  EXPECT_TRUE(parse(safetensors("{}")).arrays.empty());
  const Weights weights =
      parse(safetensors(R"({"none":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]},)"
                        R"("one":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})",
                        "xy"));
  EXPECT_TRUE(weights.find("none")->bytes.empty());
  EXPECT_EQ(weights.find("one")->bytes.size(), 2u);
}

// A file that ends early is never read as a smaller one.
TEST(Safetensors, RefusesEveryTruncation) {
  for (size_t length = 0; length < kTwoArrays.size(); ++length) {
    SCOPED_TRACE(length);
    const std::string words = test::refusal([&] { parse(kTwoArrays.substr(0, length)); });
    EXPECT_TRUE(test::says(words, "[read_safetensors] file: "));
  }
  const auto longer = [] { parse(kTwoArrays + "!"); };
  EXPECT_TRUE(test::says(test::refusal(longer), "1 bytes behind its last array"));
}

// Any byte of the header may be anything: it is read or refused, and arrays stay within the file.
TEST(Safetensors, SurvivesEveryFlippedByte) {
  for (size_t at = 0; at < kTwoArrays.size(); ++at) {
    for (const int flip : {0x01, 0x02, 0x08, 0x20, 0x80, 0xFF}) {
      std::string file = kTwoArrays;
      file[at] = static_cast<char>(file[at] ^ flip);
      try {
        for (const Array& array : parse(file).arrays) {
          EXPECT_GE(text_of(array.bytes).data(), file.data());
          EXPECT_LE(text_of(array.bytes).data() + array.bytes.size(), file.data() + file.size());
          EXPECT_EQ(array.bytes.size(), bytes_of(array.shape, array.type));
        }
      } catch (const Error&) {
      }
    }
  }
}

struct Lie {
  const char* header;
  const char* words;
};

class SafetensorsLies : public testing::TestWithParam<Lie> {};

// All have 8 bytes of data.
TEST_P(SafetensorsLies, AreRefused) {
  const auto read = [] { parse(safetensors(GetParam().header, "01234567")); };
  EXPECT_TRUE(test::says(test::refusal(read), GetParam().words));
}

constexpr Lie kLies[] = {
    {R"([])", "does not begin with {"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "not JSON"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}x)", "not JSON"},
    {"{\"\xFF\":{}}", "not JSON"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
     R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
     "'b' overlaps"},
    {R"({"a":{"dtype":"I8","shape":[5],"data_offsets":[0,5]},)"
     R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     "'b' overlaps"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "gap before 'a'"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "4 bytes behind its last"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "takes 12 bytes, but has 8"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "lies at bytes 8 to 0"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "to 12 but there are 8"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})",
     "but there are 8"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551616]}})",
     "not whole or too large"},
    {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
     "too large for any memory"},
    {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})",
     "the size 18446744073709551615"},
    {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "a negative number"},
    {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "not whole"},
    {R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", "the type 'F31'"},
    {R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", "a number at 'dtype'"},
    {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", "lacks dtype, shape or data_offsets"},
    {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", "lacks dtype"},
    {R"({"a":{"dtype":"F32","shape":[2]}})", "lacks dtype"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "lacks dtype"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "a number at"},
    {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "a list at 'shape'"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "unknown field 'x'"},
    {R"({"a":{"dtype":"F32","dtype":"F64","shape":[2],"data_offsets":[0,8]}})", "'dtype' twice"},
    {R"({"a":{"dtype":"","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "'dtype' twice"},
    {R"({"a":{"dtype":"F32","shape":[],"shape":[2],"data_offsets":[0,8]}})", "'shape' twice"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[],"data_offsets":[0,8]}})",
     "'data_offsets' twice"},
    {R"({"a":{"dtype":"","shape":[2],"data_offsets":[0,8]}})", "the type ''"},
    {R"({"a":{},"b":)", "'a' lacks dtype"},  // before the rest is read
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
     R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
     "has 'a' twice"},
    {R"({"a":null})", "null at 'a'"},
    {R"({"a":[1]})", "a list at 'a'"},
    {R"({"a":{"dtype":{"a":{}},"shape":[2],"data_offsets":[0,8]}})", "an object at 'dtype'"},
    {R"({"__metadata__":{"a":1}})", "a number at 'a'"},
    {R"({"__metadata__":{"a":"1","a":"2"}})", "metadata has 'a' twice"},
};
INSTANTIATE_TEST_SUITE_P(Each, SafetensorsLies, testing::ValuesIn(kLies));

TEST(Safetensors, RefusesHeadersBeyondTheFileAndBeyondReason) {
  const auto claims = [](uint64_t length) {
    return test::refusal([&] { parse(little_endian(length, 8) + "{}"); });
  };
  EXPECT_TRUE(test::says(claims(3), "claims a header of 3 bytes but has 10 in all"));
  EXPECT_TRUE(test::says(claims(4'000'000'000), "claims a header of 4000000000 bytes, at most"));
  EXPECT_TRUE(test::says(claims(~uint64_t{0}), "claims a header of 18446744073709551615 bytes"));
}

TEST(Safetensors, RefusesEndlessNestingAndDimensions) {
  const std::string deep = R"({"a":{"shape":)" + std::string(1'000'000, '[');
  EXPECT_TRUE(test::says(test::refusal([&] { parse(safetensors(deep)); }), "a list at"));
  std::string wide = R"({"a":{"shape":[1)";
  for (int i = 0; i < 64; ++i) wide += ",1";
  EXPECT_TRUE(test::says(test::refusal([&] { parse(safetensors(wide)); }), "more than 64"));
}

TEST(Safetensors, RefusesLongNames) {
  const auto with_names = [](size_t array, size_t metadata) {
    return safetensors(R"({"__metadata__":{")" + std::string(metadata, 'm') + R"(":"x"},")" +
                       std::string(array, 'n') +
                       R"(":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})");
  };
  EXPECT_EQ(parse(with_names(4096, 4096)).arrays.size(), 1u);
  for (const std::string& file : {with_names(4097, 1), with_names(1, 4097)}) {
    const std::string words = test::refusal([&] { parse(file); });
    EXPECT_TRUE(test::says(words, "of 4097 bytes, at most 4096 are read"));
  }
}

TEST(Safetensors, ReadsFromAFileThatIsGoneLater) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.safetensors", kTwoArrays);
  const Weights weights = read_safetensors(path);
  std::filesystem::remove(path);
  EXPECT_EQ(text_of(weights.find("a")->bytes), "abc");
}

}  // namespace
}  // namespace mala::io
