// What the kernels of every device share in mala/ops: types, and errors in the words of torch.
#include "mala/ops/kernel_call.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace mala::ops {
namespace {

TEST(KernelCall, ErrorsNameTheOperatorAndItsArguments) {
  EXPECT_EQ(
      in_torch_words("mala::attention", "[attention_forward] key_counts[1] is 0; not q_widths"),
      "[mala::attention] key_lengths[1] is 0; not grid_widths");
  EXPECT_EQ(in_torch_words("mala::attention", "k_offsets without a name"),
            "[mala::attention] cu_seqlens_k without a name");
}

TEST(KernelCall, FailuresOfADeviceNameTheCallThatFailed) {
  EXPECT_EQ(
      in_torch_words("mala::attention",
                     "[cudaLaunchKernelEx(&config, kernel, args...)] failed at a.cuh:1: why"),
      "[mala::attention] cudaLaunchKernelEx(&config, kernel, args...) failed at a.cuh:1: why");
}

TEST(KernelCall, EveryTypeHasItsName) {
  const auto is = []<typename Expected>(at::ScalarType type, Expected*) {
    return with_type(type, []<typename T>(T*) { return std::is_same_v<T, Expected>; });
  };
  EXPECT_TRUE(is(at::kFloat, static_cast<float*>(nullptr)));
  EXPECT_TRUE(is(at::kDouble, static_cast<double*>(nullptr)));
  EXPECT_TRUE(is(at::kBFloat16, static_cast<BFloat16*>(nullptr)));
  EXPECT_TRUE(is(at::kHalf, static_cast<Float16*>(nullptr)));
}

}  // namespace
}  // namespace mala::ops
