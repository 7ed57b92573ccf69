// Key counts, packed sequences and grouped heads of the causal form against the definition, for
// every instruction set, with states of their own lengths.
#include <gtest/gtest.h>

#include "tests/support/check_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace mala::test {
namespace {

using Numbers = std::vector<int64_t>;

// The least and the most, then anything between.
Numbers some_numbers(int64_t count, int64_t least, int64_t most, uint64_t seed) {
  Random random(seed);
  Numbers numbers{least, most};
  numbers.resize(count);
  for (int64_t i = 2; i < count; ++i) numbers[i] = random.integer(least, most);
  return numbers;
}

class CausalLengths : public IsaTest {};

TEST_P(CausalLengths, GroupsOfHeads) {
  for (const int64_t group : {1, 2, 3, 4}) {
    for (const int64_t kv_heads : {1, 2, 3}) {
      for (const int64_t batch : {2, 65}) {
        CausalCase c = CausalCase::of(batch == 2 ? 70 : 9, 8, 16);
        c.tokens.batch = batch;
        c.tokens.heads = group * kv_heads;
        c.tokens.group = group;
        c.tokens.options.norm = kNorms[(group + kv_heads) % 3];
        c.tokens.set_tail(static_cast<int>((group + kv_heads) % 4));
        c.set_rope(Rope::line());
        c.before = some_numbers(batch, 0, 40, 3);
        check_case<float>(c);
        if (batch == 2) check_case<double>(c);
      }
    }
  }
}

// Long enough that the tokens of a unit are split.
TEST_P(CausalLengths, GroupsOfHeadsWithManyTokens) {
  for (const int64_t group : {2, 3}) {
    for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
      CausalCase c = CausalCase::of(1100, 8, 16);
      c.tokens.heads = c.tokens.group = group;
      c.tokens.options.norm = norm;
      c.tokens.set_tail(3);
      c.set_rope(Rope::grid(20));
      c.before = {33};
      check_case<float>(c);
    }
  }
}

TEST_P(CausalLengths, KeyCountsFromOneToAll) {
  for (const int64_t tokens : {1, 2, 7, 33, 66}) {
    CausalCase c = CausalCase::of(tokens, 8, 24);
    c.tokens.batch = tokens;
    for (int64_t count = 1; count <= tokens; ++count) {
      c.tokens.lengths.key_counts.push_back(count);
      c.before.push_back(count % 5);
    }
    for (const Norm norm : kNorms) {
      c.tokens.options.norm = norm;
      c.set_rope(some_rope(kRopeKinds[tokens % 4], 2));
      c.tokens.set_tail(static_cast<int>(tokens % 4));
      check_case<float>(c);
      if (tokens < 60) check_case<double>(c);
    }
  }
}

// The keys end in an early block, and many blocks of queries follow.
TEST_P(CausalLengths, KeyCountsOfManyTokens) {
  CausalCase c = CausalCase::of(1200, 8, 8);
  c.tokens.batch = 4;
  c.tokens.heads = c.tokens.group = 2;
  c.tokens.lengths.key_counts = {1, 1200, 257, 900};
  for (const Norm norm : kNorms) {
    c.tokens.options.norm = norm;
    c.set_rope(Rope::line());
    c.before = norm == Norm::kPrinted ? Numbers{} : Numbers{0, 70, 3, 500};
    check_case<float>(c);
  }
}

TEST_P(CausalLengths, PackedSequences) {
  const std::vector<Numbers> all{{9}, {1, 1, 1}, {1, 17, 64}, {100, 1, 31, 8}, {5, 1, 900, 1, 63}};
  for (const Numbers& lengths : all) {
    for (const int64_t group : {1, 2, 3}) {
      for (const Norm norm : kNorms) {
        CausalCase c = CausalCase::of(1, 8, 16);
        c.tokens.heads = 2 * group;
        c.tokens.group = group;
        c.pack(lengths);
        c.tokens.options.norm = norm;
        c.tokens.set_tail(static_cast<int>(group));
        c.set_rope(Rope::line(7));
        check_case<float>(c);
        c.before = some_numbers(c.tokens.sequences(), 0, 90, 4);
        check_case<float>(c);
        if (c.tokens.keys < 300) check_case<double>(c);
      }
    }
  }
}

TEST_P(CausalLengths, HundredsOfSequences) {
  for (const int64_t sequences : {100, 400}) {
    for (const int64_t most : {1, 20, 80}) {
      if (kSanitized && sequences * most > 10'000) continue;
      CausalCase c = CausalCase::of(1, 8, 16);
      c.tokens.heads = c.tokens.group = 2;
      c.pack(some_numbers(sequences, 1, most, 5));
      c.tokens.options.norm = most == 20 ? Norm::kPublished : Norm::kBalanced;
      c.tokens.set_tail(2);
      c.set_rope(Rope::line());
      c.before = some_numbers(sequences, 0, 60, 6);
      check_case<float>(c);
    }
  }
}

void check_all_options(CausalCase c) {
  for (const AttentionOptions& options : every_option(5, 2)) {
    c.tokens.options = options;
    c.tokens.set_tail(static_cast<int>(++c.tokens.seed % 4));
    check_case<float>(c);
  }
}

TEST_P(CausalLengths, EveryOptionWithKeyCounts) {
  CausalCase c = CausalCase::of(21, 16, 8);
  c.tokens.batch = 3;
  c.tokens.heads = c.tokens.group = 2;
  c.tokens.lengths.key_counts = {21, 2, 9};
  c.before = {0, 7, 3};
  check_all_options(c);
}

TEST_P(CausalLengths, EveryOptionWithPackedSequences) {
  CausalCase c = CausalCase::of(1, 8, 24);
  c.tokens.heads = c.tokens.group = 2;
  c.pack({3, 40, 8});
  c.before = {4, 0, 33};
  check_all_options(c);
}

// Images of different widths, packed or one in each entry; queries and keys have their own.
TEST_P(CausalLengths, WidthOfEachImage) {
  for (const int64_t images : {3, 70}) {
    CausalCase c = CausalCase::of(20, 16, 8);
    c.tokens.batch = images;
    c.tokens.options.q_rope = Rope::grid(6, 1);
    c.tokens.options.k_rope = Rope::grid(5);
    c.before = some_numbers(images, 0, 20, 9);
    c.tokens.lengths.q_widths = some_numbers(images, 1, 9, 10);
    check_case<float>(c);
    c.tokens.lengths.k_widths = some_numbers(images, 1, 9, 11);
    check_case<float>(c);
    c.tokens.lengths.key_counts = some_numbers(images, 1, 20, 12);
    check_case<float>(c);
    c.tokens.lengths.key_counts.clear();
    c.pack(some_numbers(images, 1, 30, 13));
    check_case<float>(c);
    c.tokens.lengths.q_widths.clear();
    check_case<float>(c);
  }
}

// Sequences begin anywhere in a layout, off every alignment.
TEST_P(CausalLengths, Layouts) {
  for (const Layout in : input_layouts()) {
    for (const Layout out : output_layouts()) {
      CausalCase counted = CausalCase::of(38, 24, 8);
      counted.tokens.batch = 3;
      counted.tokens.heads = 4;
      counted.tokens.group = 2;
      counted.tokens.lengths.key_counts = {37, 1, 17};
      counted.tokens.set_tail(3);
      counted.tokens.set_input_layouts(in);
      counted.tokens.set_output_layouts(out);
      counted.tokens.misalign = 1;
      counted.set_rope(Rope::line());
      counted.before = {2, 0, 9};
      check_case<float>(counted);
      CausalCase packed = counted;
      packed.tokens.lengths = {};
      packed.pack({1, 5, 40, 2});
      packed.before = {2, 0, 9, 1};
      check_case<float>(packed);
      if (in == out) check_case<double>(packed);
      if (in == out) check_case<BFloat16>(packed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, CausalLengths, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
