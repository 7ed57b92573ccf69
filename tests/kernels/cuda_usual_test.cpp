// What warpgroups work on, heads of 64, 96 and 128 of bfloat16, against the definition: with
// lengths, groups of heads and tails, every kind of turns and every norm.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "mala/kernels/cuda/check.h"
#include "tests/kernels/cuda_attention_run.h"

namespace mala::test {
namespace {

// Each case goes to the next device, and has the next norm and kind of turns. Where devices are
// emulated they differ in the number of blocks that a head falls into, and in how many tiles each
// block has.
class GpuUsual : public GpuTest {
 protected:
  void TearDown() override { cudaSetDevice(0); }

  void check(AttentionCase c) {
    constexpr Rope::Kind kKinds[] = {Rope::Kind::kGrid, Rope::Kind::kLine, Rope::Kind::kNone};
    const int count = static_cast<int>(gpu::devices().size());
    MALA_CUDA_CHECK(cudaSetDevice(next_ % count));
    c.seed = static_cast<uint64_t>(next_);
    c.options.norm = kNorms[next_ / 3 % 3];
    c.options.q_rope = c.options.k_rope = some_rope(kKinds[next_ % 3], 3);
    c.value_dim = c.dim;
    check_on_gpu<BFloat16>(c);
    ++next_;
  }

 private:
  int next_ = 0;
};

constexpr int64_t kDims[] = {64, 96, 128};

TEST_F(GpuUsual, KeyCounts) {
  for (const int64_t dim : kDims) {
    for (const int tail : {0, 3}) {
      AttentionCase c{.batch = 3, .heads = 2, .queries = 70, .keys = 330, .dim = dim};
      c.lengths.key_counts = {1, 330, 129};
      c.set_tail(tail);
      check(c);
    }
  }
}

// Some sequences have fewer tokens than a tile, some fewer parts than others.
TEST_F(GpuUsual, PackedSequences) {
  for (const int64_t dim : kDims) {
    for (const int tail : {0, 1, 2}) {
      AttentionCase c{.heads = 2, .dim = dim};
      c.pack({1, 300, 65, 17}, {200, 1, 64, 90});
      c.set_tail(tail);
      check(c);
    }
  }
}

TEST_F(GpuUsual, GroupsOfHeads) {
  for (const int64_t dim : kDims) {
    for (const int64_t group : {2, 3}) {
      AttentionCase c{.batch = 2, .heads = 2 * group, .group = group, .queries = 150, .keys = 100};
      c.dim = dim;
      c.set_tail(static_cast<int>(group));
      check(c);
    }
  }
}

// As many queries as keys, and not.
TEST_F(GpuUsual, EveryTail) {
  for (const int64_t dim : kDims) {
    for (const int tail : {0, 1, 2, 3}) {
      AttentionCase c{.heads = 2, .queries = 200, .keys = tail % 2 == 0 ? 200 : 60, .dim = dim};
      c.set_tail(tail);
      check(c);
    }
  }
}

// A gradient whose rows are not fit for vectors takes its pass to the kernels for all.
TEST_F(GpuUsual, UnfitGradients) {
  for (const Slot slot : {kG, kDq, kDk, kDv, kDlocal, kDgate}) {
    AttentionCase c{.batch = 2, .heads = 2, .queries = 80, .keys = 80, .dim = 64};
    c.set_tail(3);
    c.layouts[slot] = Layout::kChannelsFirst;
    check(c);
  }
}

}  // namespace
}  // namespace mala::test
