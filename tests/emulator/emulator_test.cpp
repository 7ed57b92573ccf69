// The emulator itself: instructions do what PTX says, and mistakes of kernels show.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "mala/core/dtypes.h"
#include "mala/core/error.h"
#include "tests/emulator/planted.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/scheduler.h"
#include "tests/emulator/tensor_core.h"

namespace mala::emulator {
namespace {

// Each test begins with the order in which warps take turns.
class Emulator : public testing::Test {
 protected:
  void SetUp() override { set_seed(0); }
};

std::vector<float> numbers(size_t count) {
  std::vector<float> all(count);
  std::iota(all.begin(), all.end(), 1.0f);
  return all;
}

bool all_numbers(const std::vector<float>& values) {
  for (const float x : values)
    if (std::isnan(x)) return false;
  return true;
}

// What a launch with a mistake says.
template <typename Run>
std::string message_of(Run&& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}
std::string message_of_copy(Mistake mistake) {
  return message_of([&] { run_copy(numbers(256), mistake); });
}
bool says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// Of an H100 25 bits below the largest exponent count: sixteen ones are lost beside 2^26 and show
// beside 2^24. Whatever is no number goes through.
TEST_F(Emulator, TensorCoresCutOffWhatTheyAdd) {
  constexpr int kDepth = 16;
  const std::vector<float> left(kDepth, 1.0f);
  RightSide right(Operand::kBf16, kDepth, 2);
  for (int k = 0; k < kDepth; ++k) {
    for (int column = 0; column < 2; ++column) right.set(k, column, 1.0f);
  }
  float sums[] = {0x1p26f, 0x1p24f};
  add_row(left.data(), right, sums);
  EXPECT_EQ(sums[0], 0x1p26f);
  EXPECT_EQ(sums[1], 0x1p24f + 16.0f);
  sums[0] = std::numeric_limits<float>::infinity();
  right.set(3, 1, NAN);
  add_row(left.data(), right, sums);
  EXPECT_EQ(sums[0], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(sums[1]));
}

// Numbers too small for a GPU that flushes them are zero, before and after.
TEST_F(Emulator, InversesAreFlushed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(inverse_flushed(4.0f), 0.25f);
  EXPECT_EQ(inverse_flushed(0.0f), kInfinity);
  EXPECT_EQ(inverse_flushed(-0x1p-130f), -kInfinity);
  EXPECT_EQ(inverse_flushed(0x1p-126f), 0x1p126f);
  EXPECT_EQ(inverse_flushed(0x1p127f), 0.0f);
  EXPECT_EQ(inverse_flushed(kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(inverse_flushed(std::nanf(""))));
}

// NaN is larger than nothing, and the two halves are told apart.
TEST_F(Emulator, HalvesAreCompared) {
  const uint32_t one_and_minus_one = 0xBF803F80u, nan = 0x7FC07FC0u;
  EXPECT_TRUE(half_is_larger(one_and_minus_one, 0, 0));
  EXPECT_FALSE(half_is_larger(one_and_minus_one, 0, 1));
  EXPECT_FALSE(half_is_larger(nan, 0, 0) || half_is_larger(nan, 0, 1) || half_is_larger(0, 0, 0));
}

TEST_F(Emulator, TwoHalvesAreMultipliedAndAdded) {
  auto two = [](float low, float high) {
    return static_cast<uint32_t>(round_to<BFloat16>(low).bits) |
           static_cast<uint32_t>(round_to<BFloat16>(high).bits) << 16;
  };
  EXPECT_EQ(multiply_add_two(two(2, -3), two(5, 7), two(1, 4)), two(11, -17));
  const uint32_t none = two(std::numeric_limits<float>::quiet_NaN(), 1);
  const uint32_t zero_times = multiply_add_two(none, 0, 0);
  EXPECT_TRUE(std::isnan(to_float(BFloat16{static_cast<uint16_t>(zero_times)})));
  EXPECT_EQ(zero_times >> 16, 0u);
}

TEST_F(Emulator, CopiesArrive) {
  for (const uint32_t seed : {0, 1, 2, 3}) {
    set_seed(seed);
    EXPECT_EQ(run_copy(numbers(256), Mistake::kNone), numbers(256)) << "seed " << seed;
  }
}

TEST_F(Emulator, CopiesThatNobodyWaitsForAreNotThere) {
  EXPECT_FALSE(all_numbers(run_copy(numbers(256), Mistake::kNoWait)));
}

TEST_F(Emulator, AMissingBarrierShows) {
  for (const uint32_t seed : {0, 1, 2, 3}) {
    set_seed(seed);
    EXPECT_FALSE(all_numbers(run_copy(numbers(256), Mistake::kNoBarrier))) << "seed " << seed;
  }
}

TEST_F(Emulator, NamesWhoWaitsForever) {
  const std::string text = message_of_copy(Mistake::kFewArrive);
  EXPECT_TRUE(says(text, "no thread can go on")) << text;
  EXPECT_TRUE(says(text, "threads 0-31: a barrier at planted.cu:")) << text;
  EXPECT_TRUE(says(text, "barrier 1: 32 of 64 threads came")) << text;
}

TEST_F(Emulator, LanesMustNotPart) {
  const std::string text = message_of_copy(Mistake::kTwoWays);
  EXPECT_TRUE(says(text, "while other lanes of its warp wait in")) << text;
}

TEST_F(Emulator, SharedMemoryHasBorders) {
  const std::string beyond = message_of_copy(Mistake::kBeyond);
  EXPECT_TRUE(says(beyond, "4 bytes of shared memory from 1024 on, of 1024")) << beyond;
  const std::string behind = message_of_copy(Mistake::kBehind);
  EXPECT_TRUE(says(behind, "shared memory behind the block's 1024 bytes was written")) << behind;
}

TEST_F(Emulator, DeviceMemoryHasBorders) {
  EXPECT_DEATH(run_copy(numbers(256), Mistake::kStray), "was touched, which is nobody's");
}

// Left (64, 16), right (16, 8), and their product.
struct Factors {
  std::vector<uint16_t> left, right;
  std::vector<float> product = std::vector<float>(64 * 8);

  Factors() {
    auto number = [](int i) { return static_cast<float>(i % 7 - 3); };
    for (int i = 0; i < 64 * 16; ++i) left.push_back(round_to<BFloat16>(number(i)).bits);
    for (int i = 0; i < 16 * 8; ++i) right.push_back(round_to<BFloat16>(number(5 * i)).bits);
    for (int i = 0; i < 64 * 8; ++i)
      for (int k = 0; k < 16; ++k)
        product[i] += number(i / 8 * 16 + k) * number(5 * (k * 8 + i % 8));
  }
};

TEST_F(Emulator, WarpgroupsMultiply) {
  const Factors x;
  EXPECT_EQ(run_product(x.left, x.right, Mistake::kNone), x.product);
}

TEST_F(Emulator, ProductsAreLate) {
  const Factors x;
  EXPECT_FALSE(all_numbers(run_product(x.left, x.right, Mistake::kNoWait)));
  EXPECT_NE(run_product(x.left, x.right, Mistake::kOverwritten), x.product);
  const std::string text = message_of([&] { run_product(x.left, x.right, Mistake::kSumsWritten); });
  EXPECT_TRUE(says(text, "was written or moved")) << text;
}

TEST_F(Emulator, WarpsShuffle) {
  const std::vector<float> x = numbers(32);
  std::vector<float> expected;
  for (size_t lane = 0; lane < x.size(); ++lane) expected.push_back(x[lane ^ 1] + x[5]);
  EXPECT_EQ(run_shuffles(x), expected);
}

TEST_F(Emulator, MatricesComeBack) {
  std::vector<uint32_t> words(128);
  std::iota(words.begin(), words.end(), 0x10000u);
  EXPECT_EQ(run_matrices(words), words);
}

TEST_F(Emulator, KernelsMayBeginEarly) {
  for (const uint32_t seed : {0, 1, 2, 3}) {
    set_seed(seed);
    EXPECT_EQ(run_two_kernels(numbers(64), Mistake::kNone), numbers(64)) << "seed " << seed;
  }
}

TEST_F(Emulator, WhatIsReadTooEarlyIsOld) {
  set_seed(1);
  EXPECT_FALSE(all_numbers(run_two_kernels(numbers(64), Mistake::kTooEarly)));
  EXPECT_FALSE(all_numbers(run_two_kernels(numbers(64), Mistake::kCopiedEarly)));
  EXPECT_EQ(run_two_kernels(numbers(64), Mistake::kNone), numbers(64));
  const std::string text = message_of([&] { run_two_kernels(numbers(64), Mistake::kLetsNext); });
  EXPECT_TRUE(says(text, "before this one has waited for the one ahead")) << text;
}

TEST_F(Emulator, BlocksWaitForAllOthers) {
  for (const uint32_t seed : {0, 1, 2}) {
    set_seed(seed);
    EXPECT_EQ(run_grid(Mistake::kNone), (std::vector<uint32_t>{10, 20, 30, 40, 50, 0}));
  }
  std::string text = message_of([] { run_grid(Mistake::kNotTogether); });
  EXPECT_TRUE(says(text, "waits for all blocks, some of which may not have begun")) << text;
  for (const uint32_t seed : {0, 1, 2}) {
    set_seed(seed);
    text = message_of([] { run_grid(Mistake::kLeavesEarly); });
    EXPECT_TRUE(says(text, "waits for all blocks, some of whose threads have ended") ||
                says(text, "a thread ends while others wait for all blocks"))
        << text;
  }
}

TEST_F(Emulator, ClustersShareMemory) {
  EXPECT_EQ(run_cluster(), (std::vector<uint32_t>{1, 2, 3, 0, 5, 6, 7, 4}));
}

TEST_F(Emulator, BlocksHandNumbersOn) {
  std::vector<float> expected;
  for (int i = 0; i < 2 * 4 * 32; ++i) expected.push_back(static_cast<float>(i / 32));
  for (const uint32_t seed : {0, 1, 2, 3}) {
    set_seed(seed);
    EXPECT_EQ(run_chain(Mistake::kNone), expected) << "seed " << seed;
    EXPECT_FALSE(all_numbers(run_chain(Mistake::kNoWait))) << "seed " << seed;
    for (const Mistake mistake : {Mistake::kFewArrive, Mistake::kTooManyBytes}) {
      const std::string text = message_of([&] { run_chain(mistake); });
      EXPECT_TRUE(says(text, "no thread can go on")) << text;
      EXPECT_TRUE(says(text, "mbarrier.try_wait at planted.cu:")) << text;
    }
  }
}

}  // namespace
}  // namespace mala::emulator
