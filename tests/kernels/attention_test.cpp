// The kernels against the definition, for every instruction set: sizes, options, tails, layouts.
#include "mala/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attention_problem.h"
#include "tests/support/check_case.h"
#include "tests/support/compare.h"
#include "tests/support/every_isa.h"
#include "tests/support/sanitizers.h"
#include "tests/support/threads.h"

namespace mala::test {
namespace {

class Attention : public IsaTest {};

TEST_P(Attention, RaggedTokenCounts) {
  for (const int64_t tokens : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 257}) {
    for (const int64_t dim : {8, 32, 40}) {
      AttentionCase c{.queries = tokens, .keys = tokens, .dim = dim, .value_dim = dim};
      c.options.q_rope = c.options.k_rope = Rope::line();
      check_case<float>(c);
      c.queries = 5;
      check_case<float>(c);
      c.queries = tokens;
      c.keys = 5;
      check_case<float>(c);
    }
  }
}

// Long enough to be split over several tasks, with both kinds of sums: plain and centred.
TEST_P(Attention, ManyTokens) {
  for (const int64_t tokens : {1000, 3136}) {
    for (const Norm norm : kNorms) {
      AttentionCase c{.queries = tokens, .keys = tokens, .dim = 64, .value_dim = 64};
      if (kSanitized) c.dim = c.value_dim = 16;
      c.options.norm = norm;
      c.options.q_rope = c.options.k_rope = Rope::grid(56);
      c.set_tail(3);
      check_case<float>(c);
    }
  }
}

// Every head size as D and as E, mostly unlike each other; both outer loops and tails of tiles.
TEST_P(Attention, EveryHeadSize) {
  for (int64_t dim = 8; dim <= 256; dim += 8) {
    AttentionCase c{.queries = 13, .keys = 19, .dim = dim, .value_dim = 264 - dim};
    c.options.norm = kNorms[dim / 8 % 3];
    c.options.q_rope = Rope::line(4);
    c.options.k_rope = Rope::line();
    c.set_tail(static_cast<int>(dim / 8 % 4));
    check_case<float>(c);
    c.value_dim = dim;
    c.options.norm = kNorms[(dim / 8 + 1) % 3];
    check_case<float>(c);
  }
}

TEST_P(Attention, EveryHeadSizeInDouble) {
  for (int64_t dim = 8; dim <= 256; dim += 24) {
    AttentionCase c{.queries = 9, .keys = 11, .dim = dim, .value_dim = 264 - dim};
    c.options.norm = kNorms[dim / 8 % 3];
    c.options.q_rope = c.options.k_rope = Rope::grid(3, 1);
    check_case<double>(c);
  }
}

template <typename T>
void check_all_options() {
  AttentionCase c{.batch = 1, .heads = 2, .queries = 14, .keys = 21, .dim = 16, .value_dim = 24};
  for (const Rule rule : kRules)
    for (const Norm norm : kNorms)
      for (const Feature feature : kFeatures)
        for (const Rope::Kind kind : kRopeKinds)
          for (const bool key_mean : {true, false}) {
            c.options = options_of(rule, norm, feature);
            c.options.key_mean = key_mean;
            c.options.q_rope = some_rope(kind, 5);
            c.options.k_rope = some_rope(kind, 2);
            c.set_tail(static_cast<int>(++c.seed % 4));
            check_case<T>(c);
          }
}

TEST_P(Attention, EveryOption) { check_all_options<float>(); }
TEST_P(Attention, EveryOptionInDouble) { check_all_options<double>(); }

// Queries and keys may turn in different ways, or one side alone.
TEST_P(Attention, MixedRope) {
  for (const Norm norm : kNorms) {
    for (const Rope::Kind q_kind : kRopeKinds) {
      for (const Rope::Kind k_kind : kRopeKinds) {
        AttentionCase c{.queries = 20, .keys = 17, .dim = 24, .value_dim = 8};
        c.options.norm = norm;
        c.options.q_rope = some_rope(q_kind, 100);
        c.options.k_rope = some_rope(k_kind, 0);
        check_case<float>(c);
      }
    }
  }
}

// float32 angles would be off by 0.04 here.
TEST_P(Attention, FarPositions) {
  for (const Norm norm : kNorms) {
    AttentionCase c{.queries = 20, .keys = 30, .dim = 32, .value_dim = 16};
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = Rope::line(1'000'000);
    check_case<float>(c);
    c.options.q_rope = c.options.k_rope = Rope::grid(1000, 123'456'789);
    check_case<float>(c);
  }
}

TEST_P(Attention, ScaleAndEps) {
  for (const double scale : {1.0, 0.01, -0.02}) {
    for (const double eps : {0.0, 1e-3, 2.0}) {
      for (const Norm norm : kNorms) {
        AttentionCase c{.queries = 6, .keys = 10, .dim = 16, .value_dim = 16};
        c.options.norm = norm;
        c.options.scale = scale;
        // Negative scales are legal; the pole is then at s = -eps, so it is kept away from here.
        c.options.eps = scale < 0 ? eps + 5 : eps;
        check_case<float>(c);
        check_case<double>(c);
      }
    }
  }
}

// Inputs in one layout, outputs in another, with every tail and one element off alignment.
TEST_P(Attention, LayoutsTailsAndAlignment) {
  for (const Layout in : input_layouts()) {
    for (const Layout out : output_layouts()) {
      for (const int tail : {0, 1, 2, 3}) {
        AttentionCase c{
            .batch = 2, .heads = 2, .queries = 18, .keys = 35, .dim = 24, .value_dim = 16};
        c.options.norm = kNorms[tail % 3];
        c.options.q_rope = c.options.k_rope = Rope::grid(6);
        c.set_tail(tail);
        c.set_input_layouts(in);
        c.set_output_layouts(out);
        c.misalign = tail % 2;
        check_case<float>(c);
        if (in == out) check_case<double>(c);
      }
    }
  }
}

// One input at a time unlike the others, so that no two strides can be taken for each other.
TEST_P(Attention, EachTensorWithItsOwnLayout) {
  for (int slot = 0; slot < kSlots; ++slot) {
    for (const Layout layout : output_layouts()) {
      AttentionCase c{.batch = 2, .heads = 3, .queries = 10, .keys = 9, .dim = 8, .value_dim = 16};
      c.set_tail(3);
      c.layouts[slot] = layout;
      check_case<float>(c);
    }
  }
}

// One projection (B, N, 4, H, D) of which q, k, v and the gate are parts, or their gradients.
struct PackedTensor {
  static constexpr int64_t kBatch = 2, kHeads = 2, kTokens = 21, kDim = 16, kRow = kHeads * kDim;

  std::vector<float> memory = std::vector<float>(kBatch * kTokens * 4 * kRow, guard_word<float>());

  HeadsView<float> part(int64_t index) {
    return {memory.data() + index * kRow, kBatch, kHeads,   kTokens, kDim,
            kTokens * 4 * kRow,           kDim,   4 * kRow, 1};
  }

  // Every element of a part and of a dense (B, H, N, D) list, side by side.
  template <typename Visit>
  void each_element(int64_t index, Visit&& visit) {
    size_t at = 0;
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < kTokens; ++i)
          for (int64_t d = 0; d < kDim; ++d) visit(part(index).head(b, h).at(i, d), at++);
  }
  void set_part(int64_t index, const std::vector<double>& values) {
    each_element(index, [&](float& x, size_t at) { x = static_cast<float>(values[at]); });
  }
  std::vector<double> values(int64_t index) {
    std::vector<double> values;
    each_element(index, [&](float& x, size_t) { values.push_back(x); });
    return values;
  }
};

TEST_P(Attention, PackedProjection) {
  using P = PackedTensor;
  AttentionCase c{.batch = P::kBatch,
                  .heads = P::kHeads,
                  .queries = P::kTokens,
                  .keys = P::kTokens,
                  .dim = P::kDim,
                  .value_dim = P::kDim};
  c.gate = true;
  const AttentionProblem<float> separate(c);
  PackedTensor qkvo, gradient;
  qkvo.set_part(0, separate.q.values());
  qkvo.set_part(1, separate.k.values());
  qkvo.set_part(2, separate.v.values());
  qkvo.set_part(3, separate.gate.values());

  const AttentionInputs<float> inputs{qkvo.part(0), qkvo.part(1), qkvo.part(2), {}, qkvo.part(3)};
  Tensor<float> out(separate.out_shape(), Layout::kTokensFirst, Role::kOutput);
  std::vector<float> state(attention_state_size(c.batch, c.heads, c.dim, c.value_dim));
  std::vector<std::byte> scratch(attention_scratch_bytes(inputs, c.options));
  attention_forward<float>(inputs, c.options, out.view(), state, scratch);
  attention_backward<float>(
      inputs, c.options, separate.out_gradient.view(), state,
      {gradient.part(0), gradient.part(1), gradient.part(2), {}, gradient.part(3)}, scratch);
  const AttentionResults results{.out = out.values(),
                                 .q = gradient.values(0),
                                 .k = gradient.values(1),
                                 .v = gradient.values(2),
                                 .gate = gradient.values(3)};
  expect_close<float>(results, run_reference(separate), c);
}

// Near its pole `printed` is ill-conditioned: one rounding of the inputs moves the result of the
// definition itself. The kernels may be off by a few times that and no more.
TEST_P(Attention, PrintedNearItsPole) {
  AttentionCase c{.queries = 200, .keys = 80, .dim = 16, .value_dim = 16};
  c.options.norm = Norm::kPrinted;
  c.options.q_rope = Rope::line(300);
  c.options.k_rope = Rope::line();
  const AttentionProblem<float> problem(c);
  const AttentionResults expected = run_reference(problem);
  ASSERT_GT(max_size(expected.out), 20) << "this case is not near the pole";

  AttentionProblem<double> moved(c);
  Random random(3);
  for (auto [to, from] : {std::pair(&moved.q, &problem.q), std::pair(&moved.k, &problem.k),
                          std::pair(&moved.v, &problem.v)}) {
    std::vector<double> values = from->values();
    for (double& value : values) value *= 1 + random.uniform(-1, 1) * 0x1p-23;
    to->set_values(values);
  }
  moved.out_gradient.set_values(problem.out_gradient.values());
  expect_close<float>(run_kernels(problem), expected, c, run_reference(moved));
}

// The order of every sum is fixed by the sizes alone.
TEST_P(Attention, SameBitsForAnyThreadsRunAfterRun) {
  std::vector<AttentionCase> cases{
      {.queries = 3000, .keys = 2500, .dim = 16, .value_dim = 24},
      {.batch = 3, .heads = 5, .queries = 70, .keys = 300, .dim = 8, .value_dim = 8},
      {.heads = 2, .queries = 777, .keys = 777, .dim = 64, .value_dim = 64},
  };
  for (AttentionCase& c : cases) {
    c.options.q_rope = c.options.k_rope = Rope::line();
    c.set_tail(3);
    for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
      c.options.norm = norm;
      const AttentionProblem<float> problem(c);
      AttentionResults first;
      for (const int64_t threads : {1, 1, 2, 3, 5, 5}) {
        const ThreadCount scope(threads);
        const AttentionResults results = run_kernels(problem);
        if (first.out.empty()) first = results;
        EXPECT_TRUE(same_bits(results, first)) << threads << " threads, " << describe(c);
      }
    }
  }
}

// Views with stride 0 stand for any number of tokens here, without the memory.
TEST_P(Attention, ScratchDoesNotGrowWithTokens) {
  std::vector<float> one(64);
  auto scratch_bytes = [&](int64_t tokens) {
    const HeadsView<const float> x{one.data(), 1, 1, tokens, 64, 0, 0, 0, 1};
    return attention_scratch_bytes<float>({x, x, x, {}, {}}, {});
  };
  EXPECT_EQ(scratch_bytes(100'000), scratch_bytes(10'000'000));
}

// The state is what the header says: S, then the sums of phi(k), of R phi(k) and of v.
TEST_P(Attention, LeavesTheStateInTheDocumentedOrder) {
  AttentionCase c{.keys = 3, .dim = 8, .value_dim = 16};
  const AttentionProblem<double> problem(c);
  Tensor<double> out(problem.out_shape(), Layout::kDense);
  std::vector<double> state(attention_state_size(1, 1, 8, 16));
  std::vector<std::byte> scratch(attention_scratch_bytes(problem.inputs(), c.options));
  attention_forward<double>(problem.inputs(), c.options, out.view(), state, scratch);

  std::vector<double> expected(state.size());
  auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  for (int64_t j = 0; j < c.keys; ++j) {
    for (int64_t d = 0; d < 8; ++d) {
      const double b = phi(problem.k.view().head(0, 0).at(j, d));
      for (int64_t e = 0; e < 16; ++e)
        expected[d * 16 + e] += b * problem.v.view().head(0, 0).at(j, e);
      expected[8 * 16 + d] += b;
      expected[8 * 16 + 8 + d] += b;
    }
    for (int64_t e = 0; e < 16; ++e)
      expected[8 * 16 + 2 * 8 + e] += problem.v.view().head(0, 0).at(j, e);
  }
  EXPECT_LT(relative_error(state, expected), 1e-14);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, Attention, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
