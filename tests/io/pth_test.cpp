// Checkpoints, from torch itself and by hand, whole and damaged.
#include "mala/io/pth.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/io/zip_bytes.h"
#include "tests/support/refusals.h"
#include "tests/support/temporary_folder.h"

namespace mala::io {
namespace {

using namespace std::string_literals;

std::string made_by_torch(const std::string& name) {
  const std::string text = test::read_text(MALA_TEST_CORPUS "/pth/" + name);
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

Weights parse(const std::string& file, Copy copy = Copy::kTrained) {
  return parse_pth(bytes_of_text(file), "file", copy);
}
std::string refused(const std::string& file, Copy copy = Copy::kTrained) {
  return test::refusal([&] { parse(file, copy); });
}

std::vector<float> floats(const Array& array) {
  std::vector<float> values(array.bytes.size() / sizeof(float));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

// What torch would make a tensor of.
std::string tensor(const std::string& storage, const std::string& facts) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((U\7storage" + storage + "tQ" + facts + "\x89NtR";
}

std::string with_tensor(const std::string& storage, const std::string& facts,
                        const std::string& bytes) {
  return make_zip({{"f/data.pkl", "}U\1w" + tensor(storage, facts) + "s."}, {"f/data/0", bytes}});
}

const std::string kStorage =
    "ctorch\nFloatStorage\nU\1"
    "0U\3cpuK\4";
const std::string kTensor = tensor(kStorage, "K\0K\4\x85K\1\x85"s);
const std::string kFour(16, 'x');  // the bytes of its storage

// tests/fuzz/make_corpus.py says what is in them.
TEST(Pth, ReadsWhatTorchWrote) {
  const std::string file = made_by_torch("checkpoint.pth");
  const Weights weights = parse(file);
  ASSERT_EQ(weights.arrays.size(), 4u);
  EXPECT_EQ(floats(*weights.find("a.weight")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(weights.find("a.weight")->shape, (Shape{2, 3}));
  EXPECT_EQ(floats(*weights.find("turned")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(weights.find("turned")->shape, (Shape{3, 2}));
  EXPECT_EQ(weights.find("a.bias")->type, ElementType::kBFloat16);
  EXPECT_EQ(weights.find("steps")->type, ElementType::kInt64);
  EXPECT_EQ(floats(*parse(file, Copy::kAveraged).find("a.weight")), (std::vector<float>{7, 8}));
}

TEST(Pth, NamesWhatItSkips) {
  const Weights weights = parse(made_by_torch("plain.pth"));
  EXPECT_EQ(weights.arrays.size(), 1u);
  EXPECT_EQ(weights.skipped, std::vector<std::string>{"epoch"});
}

// Keys that are numbers or classes, however many, are one entry of the list.
TEST(Pth, NamesKeysThatAreNoTextOnce) {
  std::string entries;
  for (int i = 0; i < 3; ++i) entries += "K\1Ncos\nsystem\nNU\1xN";
  const std::string file =
      make_zip({{"f/data.pkl", "}(" + entries + "U\1w" + kTensor + "u."}, {"f/data/0", kFour}});
  const Weights weights = parse(file);
  EXPECT_EQ(weights.arrays.size(), 1u);
  EXPECT_EQ(weights.skipped, (std::vector<std::string>{"x", "(keys that are no text)"}));
}

TEST(Pth, RefusesLongKeys) {
  const auto with_key = [](size_t bytes) {
    const std::string key = "X" + little_endian(bytes, 4) + std::string(bytes, 'k');
    return make_zip({{"f/data.pkl", "}(" + key + "NU\1w" + kTensor + "u."}, {"f/data/0", kFour}});
  };
  EXPECT_EQ(parse(with_key(4096)).skipped.size(), 1u);
  EXPECT_TRUE(test::says(refused(with_key(4097)), "of 4097 bytes, at most 4096 are read"));
}

TEST(Pth, RefusesEveryTruncation) {
  const std::string file = made_by_torch("checkpoint.pth");
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_TRUE(test::says(refused(file.substr(0, length)), "[read_pth] file: ")) << length;
  }
}

TEST(Pth, SurvivesEveryFlippedByteAndFindsThoseInWeights) {
  const std::string whole = made_by_torch("checkpoint.pth");
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string file = whole;
      file[at] = static_cast<char>(file[at] ^ flip);
      try {
        const Weights weights = parse(file);
        EXPECT_EQ(floats(*weights.find("a.weight")), (std::vector<float>{0, 1, 2, 3, 4, 5})) << at;
      } catch (const Error&) {
      }
    }
  }
}

TEST(Pth, SaysWhatElseAFileIs) {
  EXPECT_TRUE(test::says(refused(""), "file: is empty"));
  EXPECT_TRUE(test::says(refused(made_by_torch("legacy.pth")), "before version 1.6"));
  EXPECT_TRUE(test::says(refused("version https://git-lfs.github.com"), "git lfs pull"));
  EXPECT_TRUE(test::says(refused("<html>"), "does not begin as a zip"));
  EXPECT_TRUE(test::says(refused(make_zip({{"a", "b"}})), "without data.pkl"));
  EXPECT_TRUE(test::says(refused(make_zip({{"f/data.pkl", "}."}, {"f/constants.pkl", ""}})),
                         "TorchScript"));
  EXPECT_TRUE(
      test::says(refused(make_zip({{"f/data.pkl", "}."}, {"g/data.pkl", "}."}})), "two pickles"));
  EXPECT_TRUE(test::says(refused(make_zip({{"f/data.pkl", "}."}, {"f/byteorder", "big"}})),
                         "highest bytes come first"));
}

TEST(Pth, SaysWhatIsThereInPlaceOfWeights) {
  const auto pickle = [](const std::string& text) {
    return refused(make_zip({{"f/data.pkl", text}}));
  };
  EXPECT_TRUE(test::says(pickle("}."), "has no weights: it has nothing"));
  EXPECT_TRUE(test::says(pickle("}(U\5epochK\1U\4argsNu."), "it has 'epoch', 'args'"));
  EXPECT_TRUE(test::says(pickle("]."), "no dictionary of weights"));
  EXPECT_TRUE(test::says(pickle("cnets\nMAViT\n)\x81."), "an object of 'MAViT'"));
  EXPECT_TRUE(test::says(refused(made_by_torch("plain.pth"), Copy::kAveraged),
                         "no averaged weights; it has 'w', 'epoch'"));
}

TEST(Pth, SizesOfOneMayHaveAnyStride) {
  const float levels[] = {1, 2, 3, 4};
  const std::string bytes(reinterpret_cast<const char*>(levels), sizeof levels);
  const std::string facts = "K\0K\2K\1\x86K\2\x8a\x08\0\0\0\0\0\0\0\x7F\x86"s;
  const std::string file = with_tensor(kStorage, facts, bytes);
  EXPECT_EQ(floats(*parse(file).find("w")), (std::vector<float>{1, 3}));
}

TEST(Pth, RefusesMoreDimensionsThanTorchHas) {
  const auto with_dims = [](int dims) {
    std::string ones = "(";
    for (int i = 0; i < dims; ++i) ones += "K\1";
    return with_tensor(kStorage, "K\0"s + ones + "t" + ones + "t", kFour);
  };
  EXPECT_EQ(parse(with_dims(64)).find("w")->shape.size(), 64u);
  EXPECT_TRUE(test::says(refused(with_dims(65)), "'w' has 65 dimensions, at most 64 are read"));
}

struct TensorLie {
  std::string storage, facts;  // of _rebuild_tensor_v2: offset, sizes, strides
  const char* words;
};

class PthLies : public testing::TestWithParam<TensorLie> {};

TEST_P(PthLies, AreRefused) {
  const std::string file = with_tensor(GetParam().storage, GetParam().facts, kFour);
  EXPECT_TRUE(test::says(refused(file), GetParam().words));
}

const TensorLie kLies[] = {
    {kStorage, "K\0K\5\x85K\1\x85"s, "'w' reaches beyond its storage of 4 elements"},
    {kStorage, "K\4K\1\x85K\1\x85"s, "reaches beyond"},
    {kStorage, "K\0K\2\x85K\4\x85"s, "reaches beyond"},
    {kStorage, "J\xFF\xFF\xFF\xFFK\1\x85K\1\x85"s, "no offset"},
    {kStorage, "K\3K\2\x85J\xFF\xFF\xFF\xFF\x85"s, "reaches beyond"},
    {kStorage, "K\0J\xFF\xFF\xFF\xFF\x85K\1\x85"s, "too large for any memory"},
    {kStorage, "K\0\x8a\x08\0\0\0\0\0\0\0\x40\x85K\1\x85"s, "too large for any memory"},
    {kStorage, "K\0K\2\x85\x8a\x08\0\0\0\0\0\0\0\x7F\x85"s, "reaches beyond"},
    {kStorage, "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7FK\2\x85K\1\x85"s, "reaches beyond"},
    {kStorage, "K\0\x8a\x05\0\0\0\0\x01\x85K\0\x85"s, "repeats its storage"},
    {kStorage, "K\0K\2\x85)"s, "1 sizes but 0 strides"},
    {kStorage, "K\0U\1x\x85K\1\x85"s, "a size that is no number"},
    {"ctorch\nFloatStorage\nU\1"
     "1U\3cpuK\4"s,
     "K\0K\2\x85K\1\x85"s, "lacks its entry 'f/data/1'"},
    {"ctorch\nQUInt8Storage\nU\1"
     "0U\3cpuK\4"s,
     "K\0K\2\x85K\1\x85"s, "of type 'QUInt8Storage'"},
    {"U\1xU\1"
     "0U\3cpuK\4"s,
     "K\0K\2\x85K\1\x85"s, "without a type or key"},
    {"U\1x"s, "K\0K\2\x85K\1\x85"s, "without a storage"},
};
INSTANTIATE_TEST_SUITE_P(Each, PthLies, testing::ValuesIn(kLies));

TEST(Pth, RefusesTensorsThatAreNotDense) {
  const std::string sparse = "}U\1wctorch._utils\n_rebuild_sparse_tensor\nN\x85Rs.";
  EXPECT_TRUE(test::says(refused(make_zip({{"f/data.pkl", sparse}})),
                         "'w' is kept by torch's '_rebuild_sparse_tensor'"));
}

TEST(Pth, ReadsFromAFileThatIsGoneLater) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.pth", made_by_torch("checkpoint.pth"));
  const Weights weights = read_pth(path);
  std::filesystem::remove(path);
  EXPECT_EQ(floats(*weights.find("turned")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

}  // namespace
}  // namespace mala::io
