// Key counts, packed sequences and grouped heads against the definition, for every instruction set:
// few units (a sequence's head of keys) that share the workers, and many that take one each.
#include <gtest/gtest.h>

#include "tests/support/check_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace mala::test {
namespace {

using Numbers = std::vector<int64_t>;

// From this number of units on, the kernels split no tokens any more.
constexpr int64_t kManyUnits = 64;

// 1 and the most, then anything between.
Numbers some_lengths(int64_t count, int64_t most, uint64_t seed) {
  Random random(seed);
  Numbers lengths{1, most};
  lengths.resize(count);
  for (int64_t i = 2; i < count; ++i) lengths[i] = random.integer(1, most);
  return lengths;
}

class AttentionLengths : public IsaTest {};

TEST_P(AttentionLengths, GroupsOfHeads) {
  for (const int64_t group : {1, 2, 3, 4}) {
    for (const int64_t kv_heads : {1, 2, 3}) {
      for (const int64_t batch : {2, 65}) {
        AttentionCase c{.batch = batch, .heads = group * kv_heads, .group = group};
        c.queries = 9;
        c.keys = 11;
        c.value_dim = 16;
        c.options.norm = kNorms[(group + kv_heads) % 3];
        c.options.q_rope = c.options.k_rope = Rope::line();
        c.set_tail(static_cast<int>((group + kv_heads) % 4));
        check_case<float>(c);
        if (batch == 2) check_case<double>(c);
      }
    }
  }
}

// Long enough that the tokens of a unit are split, keys and queries each in their own way.
TEST_P(AttentionLengths, GroupsOfHeadsWithManyTokens) {
  for (const int64_t group : {2, 3, 4}) {
    for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
      AttentionCase c{.heads = 2 * group, .group = group, .queries = 600, .keys = 1100};
      if (group == 3) std::swap(c.queries, c.keys);
      c.dim = 16;
      c.options.norm = norm;
      c.options.q_rope = c.options.k_rope = Rope::grid(20);
      c.set_tail(3);
      check_case<float>(c);
    }
  }
}

TEST_P(AttentionLengths, KeyCountsFromOneToAll) {
  for (const int64_t keys : {1, 2, 7, 33}) {
    AttentionCase c{.batch = keys, .queries = 6, .keys = keys, .dim = 16, .value_dim = 24};
    for (int64_t count = 1; count <= keys; ++count) c.lengths.key_counts.push_back(count);
    for (const Norm norm : kNorms) {
      c.options.norm = norm;
      c.options.q_rope = c.options.k_rope = some_rope(kRopeKinds[keys % 4], 2);
      c.set_tail(static_cast<int>(keys % 4));
      check_case<float>(c);
      check_case<double>(c);
    }
  }
}

TEST_P(AttentionLengths, KeyCountsOfFewAndManyUnits) {
  for (const int64_t batch : {5, 40, 80}) {
    for (const int64_t group : {1, 2}) {
      AttentionCase c{.batch = batch, .heads = 2, .group = group, .queries = 7, .keys = 70};
      c.lengths.key_counts = some_lengths(batch, c.keys, 4);
      c.options.q_rope = c.options.k_rope = Rope::line(3);
      c.set_tail(3);
      check_case<float>(c);
    }
  }
}

// Every entry is split into another number of parts.
TEST_P(AttentionLengths, KeyCountsOfManyTokens) {
  AttentionCase c{.batch = 4, .heads = 4, .group = 2, .queries = 300, .keys = 1500};
  c.lengths.key_counts = {1, 1500, 257, 900};
  for (const Norm norm : kNorms) {
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = Rope::line();
    check_case<float>(c);
  }
}

TEST_P(AttentionLengths, PackedSequences) {
  const std::vector<std::pair<Numbers, Numbers>> lengths{
      {{4}, {9}},
      {{1, 1, 1}, {1, 1, 1}},
      {{1, 17, 64}, {33, 1, 65}},
      {{100, 1, 31, 8}, {100, 1, 31, 8}},
      {{5, 1, 700, 1, 30}, {1, 1200, 300, 1, 2}},
  };
  for (const auto& [q_lengths, k_lengths] : lengths) {
    for (const int64_t group : {1, 2, 3}) {
      for (const Norm norm : kNorms) {
        AttentionCase c{.heads = 2 * group, .group = group, .dim = 16, .value_dim = 8};
        c.pack(q_lengths, k_lengths);
        c.options.norm = norm;
        c.options.q_rope = Rope::line(7);
        c.options.k_rope = Rope::line();
        c.set_tail(static_cast<int>(group));
        check_case<float>(c);
        if (c.keys < 300) check_case<double>(c);
      }
    }
  }
}

TEST_P(AttentionLengths, HundredsOfSequences) {
  for (const int64_t sequences : {100, 500}) {
    for (const int64_t most : {1, 20, 90}) {
      AttentionCase c{.heads = 2, .group = 2, .dim = 8, .value_dim = 16};
      c.pack(some_lengths(sequences, most, 5), some_lengths(sequences, most, 6));
      c.options.norm = most == 20 ? Norm::kBalanced : Norm::kPublished;
      c.options.q_rope = c.options.k_rope = Rope::line();
      c.set_tail(2);
      if (kSanitized && sequences * most > 10'000) continue;
      check_case<float>(c);
    }
  }
}

// Just below, at and above the number of units from which the kernels work in another way.
TEST_P(AttentionLengths, AroundManyUnits) {
  for (const int64_t units : {kManyUnits - 1, kManyUnits, kManyUnits + 1}) {
    for (const int64_t group : {1, 3}) {
      AttentionCase c{.batch = units, .heads = group, .group = group, .queries = 4, .keys = 10};
      c.set_tail(3);
      check_case<float>(c);
      AttentionCase counted = c;
      counted.lengths.key_counts = some_lengths(units, c.keys, 7);
      check_case<float>(counted);
      c.pack(some_lengths(units, 12, 8), some_lengths(units, 12, 9));
      check_case<float>(c);
      c.lengths.q_offsets.back() = c.queries += 700;  // one long sequence among short ones
      c.lengths.k_offsets.back() = c.keys += 900;
      check_case<float>(c);
    }
  }
}

void check_all_options(const AttentionCase& shape) {
  AttentionCase c = shape;
  for (const Rule rule : kRules)
    for (const Norm norm : kNorms)
      for (const Rope::Kind kind : kRopeKinds)
        for (const bool key_mean : {true, false}) {
          c.options = options_of(rule, norm, kFeatures[c.seed % 4]);
          c.options.key_mean = key_mean;
          c.options.q_rope = some_rope(kind, 5);
          c.options.k_rope = some_rope(kind, 2);
          c.set_tail(static_cast<int>(++c.seed % 4));
          check_case<float>(c);
        }
}

TEST_P(AttentionLengths, EveryOptionWithKeyCounts) {
  AttentionCase c{.batch = 3, .heads = 4, .group = 2, .queries = 10, .keys = 21, .dim = 16};
  c.lengths.key_counts = {21, 2, 9};
  check_all_options(c);
}

TEST_P(AttentionLengths, EveryOptionWithPackedSequences) {
  AttentionCase c{.heads = 4, .group = 2, .dim = 16, .value_dim = 24};
  c.pack({3, 20, 8}, {19, 4, 8});
  check_all_options(c);
}

// Images of different widths, packed or one in each entry; queries and keys have their own.
TEST_P(AttentionLengths, WidthOfEachImage) {
  for (const int64_t images : {3, 70}) {
    AttentionCase c{.batch = images, .heads = 2, .queries = 12, .keys = 20, .dim = 16};
    c.options.q_rope = Rope::grid(6, 1);
    c.options.k_rope = Rope::grid(5);
    c.options.norm = Norm::kBalanced;
    c.lengths.q_widths = some_lengths(images, 9, 10);
    check_case<float>(c);
    c.lengths.k_widths = some_lengths(images, 9, 11);
    check_case<float>(c);
    c.lengths.key_counts = some_lengths(images, c.keys, 12);
    check_case<float>(c);
    c.lengths.key_counts.clear();
    c.pack(some_lengths(images, 30, 13), some_lengths(images, 30, 14));
    check_case<float>(c);
    c.lengths.q_widths.clear();
    check_case<float>(c);
  }
}

// Sequences begin anywhere in a layout, off every alignment.
TEST_P(AttentionLengths, Layouts) {
  for (const Layout in : input_layouts()) {
    for (const Layout out : output_layouts()) {
      AttentionCase counted{.batch = 3, .heads = 4, .group = 2, .queries = 18, .keys = 35};
      counted.dim = 24;
      counted.lengths.key_counts = {34, 1, 17};
      counted.options.q_rope = counted.options.k_rope = Rope::line();
      counted.set_tail(3);
      counted.set_input_layouts(in);
      counted.set_output_layouts(out);
      counted.misalign = 1;
      check_case<float>(counted);
      AttentionCase packed = counted;
      packed.lengths = {};
      packed.pack({1, 5, 33, 2}, {3, 36, 1, 7});
      check_case<float>(packed);
      if (in == out) check_case<double>(packed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionLengths, testing::ValuesIn(test::tested_isas()),
                         isa_name);

}  // namespace
}  // namespace mala::test
