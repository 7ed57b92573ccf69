// Tokens that are spread over several callers against the definition of the whole, for every
// instruction set: options, sizes, lengths, types, layouts.
#include <gtest/gtest.h>

#include "tests/support/every_isa.h"
#include "tests/support/sanitizers.h"
#include "tests/support/split_problem.h"

namespace mala::test {
namespace {

class Split : public IsaTest {};

// One token for a caller, and ragged numbers.
TEST_P(Split, OneToFiveCallers) {
  for (const int64_t callers : {1, 2, 3, 4, 5}) {
    for (const int64_t tokens : {5, 6, 33, 70}) {
      AttentionCase c{.queries = tokens, .keys = tokens + 4, .dim = 16, .value_dim = 24};
      c.options.norm = kNorms[(callers + tokens) % 3];
      c.options.q_rope = Rope::line(3);
      c.options.k_rope = Rope::line();
      c.set_tail(static_cast<int>(tokens % 4));
      check_case<float>(split_case(c, callers));
      std::swap(c.queries, c.keys);
      check_case<double>(split_case(c, callers));
    }
  }
}

template <typename T>
void check_all_options(const AttentionCase& shape, int64_t callers) {
  AttentionCase c = shape;
  for (const AttentionOptions& options : every_option(5, 2)) {
    c.options = options;
    c.set_tail(static_cast<int>(++c.seed % 4));
    check_case<T>(split_case(c, callers));
  }
}

TEST_P(Split, EveryOption) {
  check_all_options<float>({.heads = 2, .queries = 14, .keys = 21, .dim = 16, .value_dim = 24}, 3);
}
TEST_P(Split, EveryOptionInDouble) {
  check_all_options<double>({.queries = 9, .keys = 7, .dim = 8, .value_dim = 16}, 2);
}

// No norm is the published one.
TEST_P(Split, DefaultNorm) {
  AttentionCase c{.queries = 9, .keys = 12};
  c.options.q_rope = c.options.k_rope = Rope::line();
  ASSERT_FALSE(c.options.norm.has_value());
  check_case<float>(split_case(c, 2));
}

TEST_P(Split, Types) {
  for (const Norm norm : kNorms) {
    AttentionCase c{.batch = 2, .heads = 2, .queries = 40, .keys = 45, .dim = 24, .value_dim = 40};
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = Rope::grid(7);
    c.set_tail(3);
    for (const Layout layout : {Layout::kDense, Layout::kChannelsFirst}) {
      c.set_input_layouts(layout);
      c.set_output_layouts(layout);
      check_case<BFloat16>(split_case(c, 3));
      check_case<Float16>(split_case(c, 3));
    }
  }
}

// Long enough that each caller's tokens are split over its workers, too.
TEST_P(Split, ManyTokens) {
  for (const Norm norm : kNorms) {
    AttentionCase c{.heads = 4, .group = 2, .queries = 1100, .keys = 1900, .dim = 32};
    if (kSanitized) c.dim = 8;
    c.value_dim = c.dim;
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = Rope::grid(20);
    c.set_tail(3);
    check_case<float>(split_case(c, 3));
  }
}

TEST_P(Split, HeadSizes) {
  for (int64_t dim = 8; dim <= 256; dim += 56) {
    AttentionCase c{.queries = 6, .keys = 9, .dim = dim, .value_dim = 264 - dim};
    c.options.norm = kNorms[dim / 8 % 3];
    c.options.q_rope = c.options.k_rope = Rope::line(4);
    check_case<float>(split_case(c, 2));
  }
}

TEST_P(Split, FarPositions) {
  for (const Norm norm : kNorms) {
    AttentionCase c{.queries = 20, .keys = 30, .dim = 32, .value_dim = 16};
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = Rope::line(1'000'000);
    check_case<float>(split_case(c, 3));
  }
}

// Few units share the workers of a caller, many take one each.
TEST_P(Split, GroupsOfHeads) {
  for (const int64_t group : {1, 2, 3}) {
    for (const int64_t batch : {2, 40, 65}) {
      AttentionCase c{.batch = batch, .heads = 2 * group, .group = group, .queries = 7, .keys = 9};
      c.value_dim = 16;
      c.options.norm = kNorms[(group + batch) % 3];
      c.options.q_rope = c.options.k_rope = Rope::line();
      c.set_tail(static_cast<int>(group));
      check_case<float>(split_case(c, 3));
    }
  }
}

TEST_P(Split, KeyCounts) {
  for (const Norm norm : kNorms) {
    AttentionCase c{.batch = 4, .heads = 4, .group = 2, .queries = 10, .keys = 300, .dim = 16};
    c.lengths.key_counts = {300, 5, 17, 257};
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = Rope::line(3);
    c.set_tail(3);
    check_case<float>(split_case(c, 3));
    c.lengths.key_counts = {40, 3, 3, 300};  // all of the last caller's but one
    check_case<double>(split_case(c, 3));
  }
}

TEST_P(Split, EveryOptionWithKeyCounts) {
  AttentionCase c{.batch = 3, .heads = 2, .group = 2, .queries = 6, .keys = 15, .dim = 16};
  c.lengths.key_counts = {15, 3, 9};
  check_all_options<float>(c, 3);
}

TEST_P(Split, EveryOptionWithPackedSequences) {
  AttentionCase c{.heads = 2, .group = 2, .dim = 16, .value_dim = 24};
  c.pack({3, 11, 8}, {12, 3, 7});
  check_all_options<float>(c, 2);
}

TEST_P(Split, PackedSequences) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> lengths{
      {{4}, {9}}, {{5, 17, 64}, {33, 4, 65}}, {{4, 400, 8}, {900, 5, 6}}};
  for (const auto& [q_lengths, k_lengths] : lengths) {
    for (const int64_t group : {1, 3}) {
      for (const Norm norm : kNorms) {
        AttentionCase c{.heads = 2 * group, .group = group, .dim = 16, .value_dim = 8};
        c.pack(q_lengths, k_lengths);
        c.options.norm = norm;
        c.options.q_rope = Rope::line(7);
        c.options.k_rope = Rope::line();
        c.set_tail(static_cast<int>(group));
        check_case<float>(split_case(c, 4));
      }
    }
  }
}

TEST_P(Split, ManyPackedSequences) {
  AttentionCase c{.heads = 2, .group = 2, .value_dim = 16};
  Random random(8);
  std::vector<int64_t> q_lengths(90), k_lengths(90);
  for (int64_t& length : q_lengths) length = random.integer(3, 20);
  for (int64_t& length : k_lengths) length = random.integer(3, 20);
  c.pack(q_lengths, k_lengths);
  c.options.norm = Norm::kBalanced;
  c.options.q_rope = c.options.k_rope = Rope::line();
  c.set_tail(2);
  check_case<float>(split_case(c, 3));
}

TEST_P(Split, WidthOfEachImage) {
  AttentionCase c{.batch = 3, .heads = 2, .queries = 12, .keys = 20, .dim = 16};
  c.options.q_rope = Rope::grid(6, 1);
  c.options.k_rope = Rope::grid(5);
  c.options.norm = Norm::kBalanced;
  c.lengths.q_widths = {2, 9, 4};
  c.lengths.k_widths = {7, 1, 3};
  check_case<float>(split_case(c, 3));
  c.pack({12, 20, 5}, {8, 3, 30});
  check_case<float>(split_case(c, 3));
}

// Inputs in one layout, outputs in another, one element off alignment.
TEST_P(Split, LayoutsAndAlignment) {
  for (const Layout in : input_layouts()) {
    for (const Layout out : output_layouts()) {
      AttentionCase c{.batch = 2, .heads = 4, .group = 2, .queries = 12, .keys = 35, .dim = 24};
      c.lengths.key_counts = {34, 4};
      c.options.norm = Norm::kBalanced;
      c.options.q_rope = c.options.k_rope = Rope::line();
      c.set_tail(3);
      c.set_input_layouts(in);
      c.set_output_layouts(out);
      c.misalign = 1;
      check_case<float>(split_case(c, 2));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, Split, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
