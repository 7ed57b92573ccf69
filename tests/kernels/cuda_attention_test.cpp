// The kernels of the GPU against the definition: sizes, options, tails, layouts, lengths, types.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mala/kernels/cuda/attention.h"
#include "mala/kernels/cuda/devices.h"
#include "tests/kernels/cuda_attention_run.h"
#include "tests/support/compare.h"

namespace mala::test {
namespace {

using Numbers = std::vector<int64_t>;

template <typename T>
class GpuAttention : public GpuTest {};
TYPED_TEST_SUITE(GpuAttention, DeviceTypes, TypeNames);

TYPED_TEST(GpuAttention, RaggedTokenCounts) {
  for (const int64_t tokens : {1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 129, 257}) {
    for (const int64_t dim : {8, 64}) {
      AttentionCase c{.queries = tokens, .keys = tokens, .dim = dim, .value_dim = dim};
      c.options.q_rope = c.options.k_rope = Rope::line();
      check_on_gpu<TypeParam>(c);
      c.queries = 5;
      check_on_gpu<TypeParam>(c);
    }
  }
}

TYPED_TEST(GpuAttention, EveryHeadSize) {
  for (int64_t dim = 8; dim <= 256; dim += 8) {
    AttentionCase c{.queries = 13, .keys = 19, .dim = dim, .value_dim = 264 - dim};
    c.options.norm = kNorms[dim / 8 % 3];
    c.options.q_rope = Rope::line(4);
    c.options.k_rope = Rope::line();
    c.set_tail(static_cast<int>(dim / 8 % 4));
    check_on_gpu<TypeParam>(c);
    c.value_dim = dim;
    c.options.norm = kNorms[(dim / 8 + 1) % 3];
    check_on_gpu<TypeParam>(c);
  }
}

// Long enough that the tokens of a head are split over many blocks.
TYPED_TEST(GpuAttention, ManyTokens) {
  for (const int64_t dim : {64, 96, 128}) {
    AttentionCase c{.heads = 2, .queries = 700, .keys = 2500, .dim = dim, .value_dim = dim};
    c.options.norm = kNorms[dim / 32 % 3];
    c.options.q_rope = c.options.k_rope = Rope::grid(56);
    c.set_tail(dim == 64 ? 0 : 3);
    check_on_gpu<TypeParam>(c);
  }
}

// So many heads that a block walks over several tiles, the last of them ragged: what is on its way
// for the next tile, and sums that go on, meet every kind of turns, norm and tail.
using GpuAttentionTiles = GpuTest;
TEST_F(GpuAttentionTiles, SeveralForEachBlock) {
  AttentionCase c{.batch = 66, .heads = 4, .queries = 150, .keys = 150};
  for (const int64_t dim : {64, 96, 128}) {
    for (const Rope& rope : {Rope{}, Rope::grid(15), Rope::line(1000)}) {
      const int chosen = static_cast<int>(c.seed % 2) * 3;
      for (const int tail : {0, 3}) {
        if (dim > 64 && tail != chosen) continue;  // they take long
        c.dim = c.value_dim = dim;
        c.options.norm = kNorms[++c.seed % 3];
        c.options.q_rope = c.options.k_rope = rope;
        c.set_tail(tail);
        check_on_gpu<BFloat16>(c);
      }
    }
  }
}

// Where heads fill the device, a block or a cluster of them has a head from its first key to its
// last query; where there are very many, blocks are small, and where there are few, they have many.
class GpuWholeHeads : public GpuTest, public testing::WithParamInterface<int64_t> {};
class GpuSpreadHeads : public GpuWholeHeads {
 protected:
  void TearDown() override { cudaSetDevice(0); }
};
TEST_P(GpuWholeHeads, OfOneBlockOrACluster) {
  const int64_t heads = GetParam();
  AttentionCase c{.batch = heads, .heads = 1, .queries = 150, .keys = heads > 64 ? 70 : 700};
  c.dim = c.value_dim = 64;
  c.seed = heads;
  c.options.norm = kNorms[heads % 3];
  if (heads != 33) c.options.q_rope = c.options.k_rope = Rope::grid(heads % 2 == 0 ? 10 : 33);
  c.set_tail(heads == 30 || heads == 544 ? 3 : 0);
  check_on_gpu<BFloat16>(c);
  c.queries = c.keys;
  c.set_tail(0);
  check_on_gpu<BFloat16>(c);
}
INSTANTIATE_TEST_SUITE_P(Heads, GpuWholeHeads, testing::Values(544, 300, 64, 33, 30, 15, 14),
                         testing::PrintToStringParamName());

// Few heads of more tokens than a cluster takes at once: each has many blocks, which wait for each
// other. Where devices are emulated, one with three multiprocessors gives the teams of one head
// several tiles.
TEST_P(GpuSpreadHeads, OfBlocksThatWaitForEachOther) {
  AttentionCase c{.batch = 1, .heads = GetParam(), .queries = 2200, .keys = 2100};
  c.dim = c.value_dim = 64;
  c.seed = GetParam();
  c.options.norm = kNorms[GetParam() % 3];
  c.options.q_rope = c.options.k_rope = Rope::grid(50);
  c.set_tail(GetParam() == 2 ? 3 : 0);
  check_on_gpu<BFloat16>(c);
  const int small = 3, devices = static_cast<int>(gpu::devices().size());
  if (devices > small) {
    ASSERT_EQ(cudaSetDevice(small), cudaSuccess);
  }
  c.queries = 90;
  c.options.q_rope = Rope::line(40);
  check_on_gpu<BFloat16>(c);
}
INSTANTIATE_TEST_SUITE_P(Heads, GpuSpreadHeads, testing::Values(1, 2, 3),
                         testing::PrintToStringParamName());

// As most calls are: queries turn as keys do, or nothing turns. With an output that vectors cannot
// walk over, the passes are kernels of their own after all.
TEST_F(GpuSpreadHeads, OfSeveralBatchEntries) {
  AttentionCase c{.batch = 2, .heads = 1, .queries = 2100, .keys = 2100};
  c.dim = c.value_dim = 64;
  c.options.q_rope = c.options.k_rope = Rope::grid(50);
  check_on_gpu<BFloat16>(c);
  c.options.q_rope = c.options.k_rope = Rope::none();
  check_on_gpu<BFloat16>(c);
  c.set_output_layouts(Layout::kChannelsFirst);
  check_on_gpu<BFloat16>(c);
}

// Rows of an image that lie far from the first: positions are beyond 32 bits.
TYPED_TEST(GpuAttention, RowsFarFromTheFirst) {
  for (const int64_t offset : {(int64_t{1} << 32) - 5, int64_t{1} << 33, int64_t{1} << 39}) {
    for (const int64_t dim : {24, 64, 96}) {
      AttentionCase c{.queries = 70, .keys = 130, .dim = dim};
      c.value_dim = dim;
      c.options.q_rope = c.options.k_rope = Rope::grid(33, offset);
      check_on_gpu<TypeParam>(c);
    }
  }
}

TYPED_TEST(GpuAttention, EveryOption) {
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
            check_on_gpu<TypeParam>(c);
          }
}

// Queries and keys may turn in different ways, or one side alone; and far from the start, where
// float32 angles would be off by 0.04.
TYPED_TEST(GpuAttention, Rotations) {
  for (const Norm norm : kNorms) {
    for (const Rope::Kind q_kind : kRopeKinds) {
      for (const Rope::Kind k_kind : kRopeKinds) {
        AttentionCase c{.queries = 20, .keys = 150, .dim = 24, .value_dim = 8};
        c.options.norm = norm;
        c.options.q_rope = some_rope(q_kind, 100);
        c.options.k_rope = some_rope(k_kind, 0);
        check_on_gpu<TypeParam>(c);
      }
    }
    AttentionCase far{.queries = 20, .keys = 30, .dim = 32, .value_dim = 16};
    far.options.norm = norm;
    far.options.q_rope = far.options.k_rope = Rope::line(1'000'000);
    check_on_gpu<TypeParam>(far);
    far.options.q_rope = far.options.k_rope = Rope::grid(1000, 123'456'789);
    check_on_gpu<TypeParam>(far);
    far.options.q_rope = far.options.k_rope = Rope::grid(1, 5);
    check_on_gpu<TypeParam>(far);
  }
}

TYPED_TEST(GpuAttention, LayoutsTailsAndAlignment) {
  for (const Layout in : input_layouts()) {
    for (const Layout out : output_layouts()) {
      const int tail = static_cast<int>(in) % 4;
      AttentionCase c{
          .batch = 2, .heads = 2, .queries = 18, .keys = 35, .dim = 24, .value_dim = 16};
      c.options.norm = kNorms[tail % 3];
      c.options.q_rope = c.options.k_rope = Rope::grid(6);
      c.set_tail(tail);
      c.set_input_layouts(in);
      c.set_output_layouts(out);
      c.misalign = static_cast<int>(out) % 2;
      check_on_gpu<TypeParam>(c);
    }
  }
}

TYPED_TEST(GpuAttention, EachTensorWithItsOwnLayout) {
  for (int slot = 0; slot < kSlots; ++slot) {
    for (const Layout layout : output_layouts()) {
      AttentionCase c{.batch = 2, .heads = 3, .queries = 10, .keys = 9, .dim = 8, .value_dim = 16};
      c.set_tail(3);
      c.layouts[slot] = layout;
      check_on_gpu<TypeParam>(c);
    }
  }
}

TYPED_TEST(GpuAttention, GroupsOfHeads) {
  for (const int64_t group : {2, 3}) {
    for (const int64_t queries : {9, 600}) {
      AttentionCase c{.batch = 2, .heads = 2 * group, .group = group, .queries = queries};
      c.keys = 300;
      c.value_dim = 16;
      c.options.norm = kNorms[group % 3];
      c.options.q_rope = c.options.k_rope = Rope::line();
      c.set_tail(static_cast<int>(group));
      check_on_gpu<TypeParam>(c);
    }
  }
}

TYPED_TEST(GpuAttention, KeyCounts) {
  for (const int64_t keys : {1, 7, 33, 700}) {
    AttentionCase c{.batch = 7, .heads = 2, .queries = 6, .keys = keys, .dim = 16, .value_dim = 24};
    for (int64_t i = 0; i < 7; ++i) c.lengths.key_counts.push_back(1 + i * (keys - 1) / 6);
    for (const Norm norm : kNorms) {
      c.options.norm = norm;
      c.options.q_rope = c.options.k_rope = some_rope(kRopeKinds[keys % 4], 2);
      c.set_tail(static_cast<int>(keys % 4));
      check_on_gpu<TypeParam>(c);
    }
  }
}

TYPED_TEST(GpuAttention, PackedSequences) {
  const std::vector<std::pair<Numbers, Numbers>> lengths{
      {{4}, {9}},
      {{1, 17, 64}, {33, 1, 65}},
      {{5, 1, 700, 1, 30}, {1, 1200, 300, 1, 2}},
      {Numbers(300, 3), Numbers(300, 2)},  // more than one kernel's arguments hold
  };
  for (const auto& [q_lengths, k_lengths] : lengths) {
    for (const int64_t group : {1, 2}) {
      AttentionCase c{.heads = 2 * group, .group = group, .dim = 16, .value_dim = 8};
      c.pack(q_lengths, k_lengths);
      c.options.norm = kNorms[group];
      c.options.q_rope = Rope::grid(7, 2);
      c.options.k_rope = Rope::grid(5);
      c.set_tail(static_cast<int>(group));
      check_on_gpu<TypeParam>(c);
      c.lengths.k_widths.assign(k_lengths.size(), 3);
      c.lengths.k_widths.back() = 100;
      check_on_gpu<TypeParam>(c);
    }
  }
}

// A small scratch is refused before anything runs, in each direction's own words.
TYPED_TEST(GpuAttention, RefusesASmallScratch) {
  TypeParam elements[4][40] = {};
  const HeadsView<const TypeParam> x = dense_heads(elements[0], 1, 1, 5, 8);
  HeadsView<TypeParam> outputs[3];
  for (int i = 0; i < 3; ++i) outputs[i] = dense_heads(elements[1 + i], 1, 1, 5, 8);
  std::vector<float> state(attention_state_size(1, 1, 8, 8));
  std::vector<std::byte> scratch(8);
  auto expect_refusal = [&](const char* advice, auto&& call) {
    try {
      call();
      ADD_FAILURE() << "it ran";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(advice), std::string::npos) << e.what();
    }
  };
  const AttentionInputs<TypeParam> inputs{x, x, x, {}, {}};
  expect_refusal("gpu::attention_forward_scratch_bytes", [&] {
    gpu::attention_forward<TypeParam>(inputs, {}, outputs[0], state, scratch, nullptr);
  });
  expect_refusal("gpu::attention_backward_scratch_bytes", [&] {
    gpu::attention_backward<TypeParam>(inputs, {}, x, state, {outputs[0], outputs[1], outputs[2]},
                                       scratch, nullptr);
  });
}

// An empty state says that no backward follows; any other that does not fit is a mistake.
TYPED_TEST(GpuAttention, RefusesASmallState) {
  TypeParam elements[4][40] = {};
  const HeadsView<const TypeParam> x = dense_heads(elements[0], 1, 1, 5, 8);
  HeadsView<TypeParam> outputs[3];
  for (int i = 0; i < 3; ++i) outputs[i] = dense_heads(elements[1 + i], 1, 1, 5, 8);
  const AttentionInputs<TypeParam> inputs{x, x, x, {}, {}};
  std::vector<std::byte> scratch(gpu::attention_forward_scratch_bytes<TypeParam>(inputs, {}) +
                                 gpu::attention_backward_scratch_bytes<TypeParam>(inputs, {}));
  alignas(16) float small[4] = {};
  EXPECT_THROW(gpu::attention_forward<TypeParam>(inputs, {}, outputs[0], small, scratch, nullptr),
               Error);
  EXPECT_THROW(gpu::attention_backward<TypeParam>(
                   inputs, {}, x, {}, {outputs[0], outputs[1], outputs[2]}, scratch, nullptr),
               Error);
}

// Without a state that is asked for, kernels hand each other one in the scratch, and the only
// kernel of whole heads writes none: out has the same bits.
template <typename T>
void check_without_state(const AttentionCase& c) {
  const AttentionProblem<T> problem(well_conditioned(c));
  const AttentionResults without = run_without_state(problem);
  EXPECT_TRUE(same_bits(without, run_on_gpu(problem, Pass::kForward))) << describe(c);
  expect_gpu_close<T>(without, run_reference(problem, Form::kBidirectional, Pass::kForward),
                      problem.about);
}

TYPED_TEST(GpuAttention, SameOutWithoutAState) {
  // Whole heads: of a block each, of a cluster each, of a team each; and heads that are spread.
  for (const auto& [heads, tokens] : {std::pair{2, 150}, {2, 700}, {544, 70}, {1, 2100}}) {
    AttentionCase c{.heads = heads, .queries = tokens, .keys = tokens - 3};
    c.dim = c.value_dim = 64;
    c.options.q_rope = c.options.k_rope = Rope::grid(15);
    check_without_state<TypeParam>(c);
    if (heads == 544) continue;  // they take long
    c.set_tail(3);
    check_without_state<TypeParam>(c);
    // With an output that vectors cannot walk over, the passes are kernels of their own after all.
    c.set_output_layouts(Layout::kChannelsFirst);
    check_without_state<TypeParam>(c);
  }
}

// Of groups of heads, of counted keys, of packed sequences and of heads of most sizes the passes
// are always kernels of their own.
TYPED_TEST(GpuAttention, SameOutWithoutAStateOfSeveralKernels) {
  for (const int64_t dim : {24, 64, 96, 128, 256}) {
    AttentionCase c{.batch = 2, .heads = 4, .group = 2, .queries = 70, .keys = 200};
    c.dim = c.value_dim = dim;
    c.options.q_rope = c.options.k_rope = Rope::line();
    check_without_state<TypeParam>(c);
    c.set_tail(3);
    c.group = 1;
    c.lengths.key_counts = {200, 77};
    check_without_state<TypeParam>(c);
  }
  AttentionCase c{.heads = 2, .dim = 64, .value_dim = 64};
  c.pack({5, 1, 300}, {5, 130, 1});
  c.misalign = 1;
  check_without_state<TypeParam>(c);
}

AttentionCase split_case() {
  AttentionCase c{.batch = 2, .heads = 3, .queries = 700, .keys = 2100, .dim = 64, .value_dim = 64};
  c.options.q_rope = c.options.k_rope = Rope::line();
  c.set_tail(3);
  return c;
}

TYPED_TEST(GpuAttention, SameBitsRunAfterRun) {
  const AttentionProblem<TypeParam> problem(split_case());
  const AttentionResults first = run_on_gpu(problem);
  for (int run = 1; run < 10; ++run) EXPECT_TRUE(same_bits(run_on_gpu(problem), first)) << run;
}

TYPED_TEST(GpuAttention, SameBitsInAGraphAndOnTwoStreams) {
  AttentionCase c = split_case();
  c.lengths.key_counts = {2100, 77};
  const AttentionProblem<TypeParam> problem(c);
  const AttentionResults first = run_on_gpu(problem);
  for (const How how : {How::kStreams, How::kGraph}) {
    for (const AttentionResults& results : run_often_on_gpu(problem, 2, how))
      EXPECT_TRUE(same_bits(results, first)) << static_cast<int>(how);
  }
}

// Block sums: the error stays where it was at a thousand tokens.
TYPED_TEST(GpuAttention, AMillionTokens) {
  AttentionCase c{.queries = 40, .keys = 1'000'000, .dim = 8, .value_dim = 8};
  c.options.norm = Norm::kBalanced;
  c.options.q_rope = c.options.k_rope = Rope::line();
  const AttentionProblem<TypeParam> problem(c);
  expect_gpu_close<TypeParam>(run_on_gpu(problem, Pass::kForward),
                              run_reference(problem, Form::kBidirectional, Pass::kForward), c);
}

}  // namespace
}  // namespace mala::test
