// Wrong lengths and heads: each is refused with a message that helps, before anything is written.
#include <gtest/gtest.h>

#include "tests/support/refused_calls.h"

namespace mala::test {
namespace {

using Numbers = std::vector<int64_t>;
using Place = Numbers CaseLengths::*;

AttentionCase counted_case() {
  AttentionCase c{.batch = 3, .heads = 4, .group = 2, .queries = 5, .keys = 7};
  c.lengths.key_counts = {7, 1, 4};
  c.set_tail(3);
  return c;
}

// Three sequences with 9 queries and 12 keys.
AttentionCase packed_case() {
  AttentionCase c{.heads = 4, .group = 2};
  c.pack({4, 1, 4}, {4, 6, 2});
  c.set_tail(3);
  return c;
}

AttentionCase image_case() {
  AttentionCase c = packed_case();
  c.options.q_rope = c.options.k_rope = Rope::grid(3);
  c.lengths.q_widths = {2, 1, 4};
  c.lengths.k_widths = {5, 2, 1};
  return c;
}

Spoil set(Place place, const Numbers& numbers) {
  return
      [=](Call& c) { c.change_lengths([&](CaseLengths& lengths) { lengths.*place = numbers; }); };
}

TEST(AttentionLengthsErrors, LegalCallsAreTaken) {
  for (const AttentionCase& c : {counted_case(), packed_case(), image_case()}) {
    const Call call(c);
    EXPECT_NO_THROW(call.scratch_bytes());
    EXPECT_NO_THROW(call.forward());
    EXPECT_NO_THROW(call.backward());
    EXPECT_FALSE(call.untouched());
  }
}

TEST(AttentionLengthsErrors, HeadsThatDoNotDivide) {
  const AttentionCase legal{.batch = 2, .heads = 4};
  auto set_heads = [](int64_t heads) {
    return [heads](Call& c) { c.inputs.k.heads = c.inputs.v.heads = heads; };
  };
  expect_all_refuse(legal, set_heads(3), {"k has 3 heads", "q has 4", "divide"});
  const AttentionCase grouped{.batch = 2, .heads = 6, .group = 3};
  expect_all_refuse(grouped, [](Call& c) { c.inputs.q.heads = 5; },
                    {"k has 2 heads", "q has 5", "divide"});
  // More heads of keys than of queries.
  expect_all_refuse(legal, [](Call& c) { c.inputs.q.heads = 2; },
                    {"k has 4 heads", "q has 2", "divide"});
  // Keys and values are grouped alike.
  expect_all_refuse(grouped, [](Call& c) { c.inputs.v.heads = 1; },
                    {"v ", "(2, 1, 7, 8)", "(2, 2, 7, 8)"});
}

TEST(AttentionLengthsErrors, GradientsHaveTheHeadsOfTheirInputs) {
  const AttentionCase grouped{.heads = 6, .group = 3};
  expect_backward_refuses(grouped, [](Call& c) { c.gradients.k.heads = 1; },
                          {"gradient of k", "(1, 1, 7, 8)", "(1, 2, 7, 8)"});
  expect_backward_refuses(grouped, [](Call& c) { c.gradients.v.heads = 1; },
                          {"gradient of v", "(1, 1, 7, 8)", "(1, 2, 7, 8)"});
  expect_backward_refuses(grouped, [](Call& c) { c.gradients.q.heads = 2; },
                          {"gradient of q", "(1, 2, 5, 8)", "(1, 6, 5, 8)"});
}

TEST(AttentionLengthsErrors, KeyCountsOutOfRange) {
  const Place counts = &CaseLengths::key_counts;
  auto refuse = [&](const Numbers& numbers, const Facts& facts) {
    expect_all_refuse(counted_case(), set(counts, numbers), facts);
  };
  refuse({0, 1, 4}, {"key_counts[0] is 0", "1 to 7", "leave empty entries out"});
  refuse({7, 1, -2}, {"key_counts[2] is -2", "1 to 7"});
  refuse({7, 8, 4}, {"key_counts[1] is 8", "1 to 7", "number of keys"});
  refuse({7, 1}, {"key_counts has 2 numbers", "batch of 3", "one for each entry"});
  refuse({7, 1, 4, 4}, {"key_counts has 4 numbers", "batch of 3"});
}

TEST(AttentionLengthsErrors, OffsetsThatDoNotFit) {
  struct Side {
    const char* name;
    Place place;
    Numbers legal;
  };
  for (const Side& side : {Side{"q_offsets", &CaseLengths::q_offsets, {0, 4, 5, 9}},
                           Side{"k_offsets", &CaseLengths::k_offsets, {0, 4, 10, 12}}}) {
    const std::string name = side.name, end = std::to_string(side.legal.back());
    auto refuse = [&](size_t at, int64_t number, const Facts& facts) {
      Numbers numbers = side.legal;
      numbers[at] = number;
      expect_all_refuse(packed_case(), set(side.place, numbers), facts);
    };
    refuse(0, 1, {name + "[0] is 1", "begin at 0"});
    refuse(0, -1, {name + "[0] is -1", "begin at 0"});
    refuse(2, 2, {name + "[2] is 2 after " + std::to_string(side.legal[1]), "rise"});
    refuse(2, side.legal[1], {name + "[2]", "rise", "leave empty sequences out"});
    refuse(3, 13, {name + "[3] is 13", "number of tokens, " + end});
    refuse(3, side.legal[3] - 1, {name + "[3]", end});
  }
}

TEST(AttentionLengthsErrors, OffsetsOfDifferentNumbersOfSequences) {
  expect_all_refuse(packed_case(), set(&CaseLengths::q_offsets, {0, 4, 9}),
                    {"q_offsets has 3 numbers", "k_offsets 4"});
  expect_all_refuse(packed_case(), set(&CaseLengths::k_offsets, {0, 12}),
                    {"q_offsets has 4 numbers", "k_offsets 2"});
  // One side alone.
  expect_all_refuse(packed_case(), set(&CaseLengths::k_offsets, {}), {"k_offsets", "q_offsets"});
  expect_all_refuse(packed_case(), set(&CaseLengths::q_offsets, {}), {"k_offsets", "q_offsets"});
  // A beginning without an end.
  expect_all_refuse(
      packed_case(),
      [](Call& c) { c.change_lengths([](CaseLengths& x) { x.q_offsets = x.k_offsets = {0}; }); },
      {"q_offsets has 1 numbers", "S + 1"});
}

TEST(AttentionLengthsErrors, PackedSequencesInABatch) {
  const AttentionCase legal{.batch = 2, .queries = 5, .keys = 7};
  expect_all_refuse(legal,
                    [](Call& c) {
                      c.change_lengths([](CaseLengths& lengths) {
                        lengths.q_offsets = {0, 2, 5};
                        lengths.k_offsets = {0, 3, 7};
                      });
                    },
                    {"batch of 2", "batch of 1"});
}

TEST(AttentionLengthsErrors, KeyCountsTogetherWithOffsets) {
  expect_all_refuse(packed_case(), set(&CaseLengths::key_counts, {12}),
                    {"key_counts", "offsets", "one or the other"});
}

TEST(AttentionLengthsErrors, WidthsThatDoNotFit) {
  for (const auto& [name, place] : {std::pair("q_widths", &CaseLengths::q_widths),
                                    std::pair("k_widths", &CaseLengths::k_widths)}) {
    const std::string text = name;
    expect_all_refuse(image_case(), set(place, {2, 3}),
                      {text + " has 2 numbers", "3 sequences", "one for each"});
    expect_all_refuse(image_case(), set(place, {2, 3, 4, 5}), {text + " has 4 numbers"});
    expect_all_refuse(image_case(), set(place, {2, 0, 4}), {text + "[1] is 0", "at least 1"});
    expect_all_refuse(image_case(), set(place, {2, 3, -4}), {text + "[2] is -4", "at least 1"});
    // Batch entries may have widths of their own, too.
    expect_all_refuse(counted_case(), set(place, {2, 3}), {text + " has 2 numbers", "3 sequences"});
  }
}

// A state for each sequence and each head of keys.
TEST(AttentionLengthsErrors, StatesThatAreTooSmall) {
  for (const AttentionCase& legal : {packed_case(), counted_case()}) {
    const int64_t needed = 3 * 2 * (8 * 8 + 2 * 8 + 8);
    ASSERT_EQ(attention_state_size(3, 2, 8, 8), needed);
    const Facts facts{"state", std::to_string(needed - 1), std::to_string(needed),
                      "attention_state_size"};
    auto shorten = [&](Call& c) { c.state = c.state.first(needed - 1); };
    expect_forward_refuses(legal, shorten, facts);
    expect_backward_refuses(legal, shorten, facts);
  }
}

// The table restarts with each sequence: as many rows as the longest has tokens.
TEST(AttentionLengthsErrors, TablesShorterThanTheLongestSequence) {
  static const std::vector<float> table(100, 1.0f);
  auto rope = [](int64_t rows) { return Rope::table(table.data(), table.data(), rows, 4); };
  AttentionCase legal = packed_case();
  expect_all_refuse(legal, [&](Call& c) { c.options.q_rope = rope(3); },
                    {"q_rope", "table of 3 rows", "4 tokens"});
  expect_all_refuse(legal, [&](Call& c) { c.options.k_rope = rope(5); },
                    {"k_rope", "table of 5 rows", "6 tokens"});
  Call call(legal);
  call.options.q_rope = rope(4);
  call.options.k_rope = rope(6);
  EXPECT_NO_THROW(call.forward());
  EXPECT_NO_THROW(call.backward());
}

}  // namespace
}  // namespace mala::test
