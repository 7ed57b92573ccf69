// The causal kernels against the definition, for every instruction set: sizes, options, types,
// tails, layouts, and states before and after.
#include "mala/kernels/causal.h"

#include <gtest/gtest.h>

#include "tests/support/check_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/sanitizers.h"

namespace mala::test {
namespace {

constexpr std::array<int64_t, 8> kDims{8, 16, 24, 40, 64, 96, 128, 256};

class Causal : public IsaTest {};

TEST_P(Causal, RaggedTokenCounts) {
  for (const int64_t tokens : {1, 2, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 257, 1025}) {
    for (const auto& [dim, value_dim] : {std::pair(8, 16), std::pair(40, 24)}) {
      CausalCase c = CausalCase::of(tokens, dim, value_dim);
      c.set_rope(Rope::line());
      check_case<float>(c);
      c.before = {tokens / 3};
      c.tokens.options.norm = Norm::kPublished;
      check_case<float>(c);
      if (tokens < 300) check_case<double>(c);
    }
  }
}

// Each as D and as E, never alike; tokens of less than one block, and of a block and a bit.
TEST_P(Causal, EveryHeadSize) {
  for (const int64_t dim : kDims) {
    for (const int64_t value_dim : kDims) {
      if (dim == value_dim) continue;
      const int64_t seed = (dim + 3 * value_dim) / 8;
      CausalCase c = CausalCase::of(seed % 2 ? 13 : 70, dim, value_dim);
      if (kSanitized && dim * value_dim > 10'000) c.set_tokens(13);
      c.tokens.options.norm = kNorms[seed % 3];
      c.set_rope(Rope::line(4));
      c.tokens.set_tail(static_cast<int>(seed % 4));
      if (seed % 3) c.before = {seed};
      check_case<float>(c);
    }
  }
}

TEST_P(Causal, EveryHeadSizeInDouble) {
  for (size_t i = 0; i < kDims.size(); ++i) {
    CausalCase c = CausalCase::of(67, kDims[i], kDims[(i + 3) % kDims.size()]);
    if (kSanitized) c.set_tokens(11);
    c.tokens.options.norm = kNorms[i % 3];
    c.set_rope(Rope::grid(3, 1));
    c.before = {static_cast<int64_t>(i)};
    check_case<double>(c);
  }
}

template <typename T>
void check_all_options(int64_t tokens) {
  CausalCase c = CausalCase::of(tokens, 16, 24);
  for (const AttentionOptions& options : every_option(5, 2)) {
    c.tokens.options = options;
    c.tokens.set_tail(static_cast<int>(++c.tokens.seed % 4));
    const int64_t before = static_cast<int64_t>(c.tokens.seed % 3);
    c.before = before == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{9 * before - 9};
    check_case<T>(c);
  }
}

TEST_P(Causal, EveryOption) { check_all_options<float>(kSanitized ? 20 : 75); }
TEST_P(Causal, EveryOptionInDouble) { check_all_options<double>(kSanitized ? 20 : 75); }
TEST_P(Causal, EveryOptionInBfloat16) { check_all_options<BFloat16>(21); }
TEST_P(Causal, EveryOptionInFloat16) { check_all_options<Float16>(21); }

// Narrow types: whole and ragged blocks, rows of odd lengths, neighbours side by side.
template <typename T>
void check_narrow() {
  for (const int64_t tokens : {1, 33, 64, 100, 300}) {
    for (const Layout layout : {Layout::kDense, Layout::kPacked, Layout::kChannelsFirst,
                                Layout::kPadded, Layout::kEveryOther}) {
      CausalCase c = CausalCase::of(tokens, 40, 24);
      c.tokens.batch = 2;
      c.tokens.set_input_layouts(layout);
      c.tokens.set_output_layouts(layout);
      c.tokens.misalign = tokens % 2;
      c.tokens.set_tail(3);
      c.set_rope(Rope::line());
      c.before = {0, 50};
      check_case<T>(c);
    }
  }
}

TEST_P(Causal, Bfloat16) { check_narrow<BFloat16>(); }
TEST_P(Causal, Float16) { check_narrow<Float16>(); }

// Queries and keys may turn in different ways, or one side alone.
TEST_P(Causal, MixedRope) {
  for (const Norm norm : kNorms) {
    for (const Rope::Kind q_kind : kRopeKinds) {
      for (const Rope::Kind k_kind : kRopeKinds) {
        CausalCase c = CausalCase::of(40, 24, 8);
        c.tokens.options.norm = norm;
        c.tokens.options.q_rope = some_rope(q_kind, 100);
        c.tokens.options.k_rope = some_rope(k_kind, 0);
        c.before = {6};
        check_case<float>(c);
      }
    }
  }
}

// Positions go on from the count; float32 angles would be off by 0.04 here.
TEST_P(Causal, FarPositions) {
  for (const Norm norm : kNorms) {
    CausalCase c = CausalCase::of(70, 32, 16);
    c.tokens.batch = 2;
    c.tokens.options.norm = norm;
    c.before = {1'000'000, 999'937};
    c.set_rope(Rope::line());
    check_case<float>(c);
    c.set_rope(Rope::line(123'456));
    check_case<float>(c);
    c.set_rope(Rope::grid(1000, 7));
    check_case<float>(c);
  }
}

TEST_P(Causal, ScaleAndEps) {
  for (const double scale : {1.0, 0.01, -0.02}) {
    for (const double eps : {0.0, 1e-3, 2.0}) {
      for (const Norm norm : kNorms) {
        CausalCase c = CausalCase::of(36, 16, 8);
        c.tokens.options.norm = norm;
        c.tokens.options.scale = scale;
        // Negative scales are legal; the pole is then at s = -eps, so it is kept away from here.
        c.tokens.options.eps = scale < 0 ? eps + 5 : eps;
        c.before = {4};
        check_case<float>(c);
        check_case<double>(c);
      }
    }
  }
}

// A state before or none, a state after or none, and the gradient of the first or not.
TEST_P(Causal, WithAndWithoutStates) {
  for (const bool after : {true, false}) {
    for (const bool before_gradient : {true, false}) {
      for (const std::vector<int64_t>& before :
           {std::vector<int64_t>{}, {0, 0, 0}, {5, 0, 200}, {1, 64, 3}}) {
        for (const Norm norm : kNorms) {
          CausalCase c = CausalCase::of(66, 16, 8);
          c.tokens.batch = 3;
          c.tokens.heads = 2;
          c.tokens.options.norm = norm;
          c.tokens.set_tail(static_cast<int>(before.size()));
          c.set_rope(Rope::line());
          c.before = before;
          c.after = after;
          c.before_gradient = before_gradient;
          check_case<float>(c);
        }
      }
    }
  }
}

// Few sequences of many tokens, which are split over the workers; and many of few.
TEST_P(Causal, FewLongSequences) {
  for (const int64_t tokens : {1500, 3100}) {
    for (const Norm norm : kNorms) {
      CausalCase c = CausalCase::of(tokens, 16, 24);
      if (kSanitized) c.tokens.dim = c.tokens.value_dim = 8;
      c.tokens.batch = tokens < 2000 ? 2 : 1;
      c.tokens.options.norm = norm;
      c.tokens.set_tail(3);
      c.set_rope(Rope::line());
      check_case<float>(c);
      c.before.assign(c.tokens.batch, 700);
      check_case<float>(c);
    }
  }
}

TEST_P(Causal, ManyTokensOfLargeHeads) {
  for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
    CausalCase c = CausalCase::of(kSanitized ? 150 : 700, 64, 64);
    c.tokens.options.norm = norm;
    c.set_rope(Rope::line());
    c.before = {100};
    check_case<float>(c);
  }
}

TEST_P(Causal, ManyShortSequences) {
  for (const int64_t batch : {63, 64, 65, 130}) {
    CausalCase c = CausalCase::of(batch == 65 ? 35 : 3, 8, 16);
    c.tokens.batch = batch;
    c.tokens.heads = 2;
    c.set_rope(Rope::line());
    c.tokens.set_tail(2);
    check_case<float>(c);
    for (int64_t b = 0; b < batch; ++b) c.before.push_back(b * 7 % 31);
    check_case<float>(c);
  }
}

// Inputs in one layout, outputs in another, with every tail and one element off alignment.
TEST_P(Causal, LayoutsTailsAndAlignment) {
  for (const Layout in : input_layouts()) {
    for (const Layout out : output_layouts()) {
      for (const int tail : {0, 1, 2, 3}) {
        CausalCase c = CausalCase::of(37, 24, 16);
        c.tokens.batch = c.tokens.heads = 2;
        c.tokens.options.norm = kNorms[tail % 3];
        c.tokens.set_tail(tail);
        c.tokens.set_input_layouts(in);
        c.tokens.set_output_layouts(out);
        c.tokens.misalign = tail % 2;
        c.set_rope(Rope::grid(6));
        c.before = {0, 11};
        check_case<float>(c);
        if (in == out) check_case<double>(c);
      }
    }
  }
}

// One tensor at a time unlike the others, so that no two strides can be taken for each other.
TEST_P(Causal, EachTensorWithItsOwnLayout) {
  for (int slot = 0; slot < kSlots; ++slot) {
    for (const Layout layout : output_layouts()) {
      CausalCase c = CausalCase::of(34, 8, 16);
      c.tokens.batch = 2;
      c.tokens.heads = 3;
      c.tokens.set_tail(3);
      c.tokens.layouts[slot] = layout;
      check_case<float>(c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, Causal, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
