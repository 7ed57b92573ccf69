// Pickles become trees, whatever they would call stays a name, and broken ones are refused.
#include "mala/io/pickle.h"

#include <gtest/gtest.h>

#include "tests/support/refusals.h"

namespace mala::io {
namespace {

using Kind = Node::Kind;
using namespace std::string_literals;

const Source kSource{"test", "file"};

Pickle parse(const std::string& text) { return read_pickle(bytes_of_text(text), kSource); }
std::string refused(const std::string& text) {
  return test::refusal([&] { parse(text); });
}

struct Number {
  std::string text;
  int64_t value;
};

TEST(Pickle, ReadsWholeNumbersInEveryForm) {
  const Number numbers[] = {
      {"K\x07"s, 7},
      {"M\x01\x02"s, 0x201},
      {"J\xFE\xFF\xFF\xFF"s, -2},
      {"\x8a\x00"s, 0},
      {"\x8a\x01\xFF"s, -1},
      {"\x8a\x02\xFF\x00"s, 255},
      {"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"s, INT64_MIN},
      {"\x8b\x01\x00\x00\x00\x05"s, 5},
      {"I12\n", 12},
      {"L-12L\n", -12},
      {"\x88", 1},
      {"\x89", 0},
  };
  for (const auto& [text, value] : numbers) {
    const Pickle pickle = parse(text + ".");
    EXPECT_EQ(pickle.top().kind, Kind::kInteger) << text;
    EXPECT_EQ(pickle.top().integer, value) << text;
  }
}

TEST(Pickle, ReadsTextInEveryForm) {
  for (const std::string& text :
       {"X\x02\x00\x00\x00hi"s, "U\x02hi"s, "T\x02\x00\x00\x00hi"s, "\x8c\x02hi"s,
        "\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi"s, "Vhi\n"s, "S'hi'\n"s}) {
    EXPECT_EQ(parse(text + ".").top().text, "hi");
  }
}

TEST(Pickle, ReadsContainers) {
  for (const char* text : {"(K\1K\2t.", "K\1K\2\x86.", "(K\1K\2l.", "](K\1K\2e.", "]K\1aK\2a."}) {
    const Pickle pickle = parse(text);
    ASSERT_EQ(pickle.top().items.size(), 2u) << text;
    EXPECT_EQ(pickle[pickle.top().items[1]].integer, 2);
  }
  for (const char* text :
       {"}U\1aK\1s.", "}(U\1aK\1u.", "(U\1aK\1d.", "ccollections\nOrderedDict\n)RU\1aK\1s.",
        "ccollections\nOrderedDict\n((U\1aK\1ltR.", "c__builtin__\ndict\n)\x81U\1aK\1s."}) {
    const Pickle pickle = parse(text);
    ASSERT_EQ(pickle.top().kind, Kind::kDict) << text;
  }
}

TEST(Pickle, RemembersAndRepeats) {
  for (const std::string& text :
       {"K\5q\3h\3\x86."s, "K\5r\3\0\0\0j\3\0\0\0\x86."s, "K\5p3\ng3\n\x86."s, "K\5\x94h\0\x86."s,
        "K\5"
        "2\x86."s}) {
    const Pickle pickle = parse(text);
    ASSERT_EQ(pickle.top().items.size(), 2u);
    EXPECT_EQ(pickle.top().items[0], pickle.top().items[1]);
  }
}

TEST(Pickle, CallsNothing) {
  const std::string text = "cos\nsystem\nU\4halt\x85R.";
  const Pickle pickle = parse(text);
  EXPECT_EQ(pickle.top().kind, Kind::kCall);
  const Node& function = pickle[pickle.top().items[0]];
  EXPECT_EQ(function.kind, Kind::kGlobal);
  EXPECT_EQ(function.module, "os");
  EXPECT_EQ(function.text, "system");
}

// An object with state, items and arguments of its own, between two values that are read.
TEST(Pickle, SkipsObjectsItDoesNotKnow) {
  const std::string object =
      "cargparse\nNamespace\n)\x81}(U\2lrG\x3f\xb9\x99\x99\x99\x99\x99\x9aU\1xNub"
      "U\1kU\1vs(K\1K\2u(K\3e";
  const Pickle pickle = parse("(K\1" + object + "K\2t.");
  ASSERT_EQ(pickle.top().items.size(), 3u);
  EXPECT_EQ(pickle[pickle.top().items[1]].kind, Kind::kCall);
  EXPECT_EQ(pickle[pickle.top().items[2]].integer, 2);
}

TEST(Pickle, AListMayContainItself) {
  const Pickle pickle = parse("]q\1h\1a.");
  EXPECT_EQ(pickle.top().items[0], pickle.root);
}

TEST(Pickle, RefusesDamage) {
  EXPECT_TRUE(test::says(refused(""), "ends early"));
  EXPECT_TRUE(test::says(refused("."), "empty stack"));
  EXPECT_TRUE(test::says(refused("K\1(."), "empty stack"));
  EXPECT_TRUE(test::says(refused("t."), "no mark"));
  EXPECT_TRUE(test::says(refused("}(K\1u."), "a key without a value"));
  EXPECT_TRUE(test::says(refused("h\1."), "never kept"));
  EXPECT_TRUE(test::says(refused("gx\n."), "broken memo key"));
  EXPECT_TRUE(test::says(refused("K\5p3\ng3x\n."), "broken memo key"));
  EXPECT_TRUE(test::says(refused("\xFE."), "unknown opcode 254"));
  EXPECT_TRUE(test::says(refused("\x80\6N."), "protocol after 5"));
  EXPECT_TRUE(test::says(refused("X\xFF\xFF\xFF\xFFx."), "ends early"));
  EXPECT_TRUE(test::says(refused("\x8d\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFx."), "ends early"));
}

// A long list made into dictionaries over and over would fill the memory, and where its items are
// no pairs it would still take the time.
TEST(Pickle, RefusesToGrowWithoutEnd) {
  for (const char* item : {"K\1K\2\x86", "K\1"}) {
    std::string text = "((((";
    for (int i = 0; i < 100'000; ++i) text += item;
    text += "lq\1ccollections\nOrderedDict\nq\2";
    for (int i = 0; i < 1000; ++i) text += "h\2h\1\x85R";
    EXPECT_TRUE(test::says(refused(text + "."), "more than 4000000 values"));
  }
  EXPECT_TRUE(test::says(refused("N" + std::string(5'000'000, '\x94') + "."), "more than 4000000"));
}

}  // namespace
}  // namespace mala::io
