// How the operators call the kernels of a GPU: what they refuse before they need one.
#include "mala/ops/cuda_call.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>

namespace mala::ops {
namespace {

KeysCall call_of(const Tensor& k, const Tensor& v) {
  KeysCall call;
  call.k = k;
  call.v = v;
  call.feature = "elu1";
  call.rope.rope = "none";
  return call;
}

template <class Refusal>
std::string refusal_of(const KeysCall& call) {
  try {
    run_on_gpu("mala::attention_keys", call, call.k, [](auto*, void*) {});
  } catch (const Refusal& e) {
    return e.what_without_backtrace();
  }
  return "nothing";
}

TEST(CudaCall, TensorsOnTwoDevicesAreDescribed) {
  const Tensor x = at::zeros({2, 3, 6, 8});
  EXPECT_EQ(refusal_of<c10::Error>(call_of(x, x.to(at::kMeta))),
            "[mala::attention_keys] v is Float on meta but k is Float on cpu; convert them to one "
            "type and device (the call had tokens of sizes [2, 3, 6, 8], Float on cpu)");
}

TEST(CudaCall, ATypeThatGpusLackIsDescribed) {
  const Tensor x = at::zeros({2, 3, 6, 8}, at::kDouble);
  const std::string text = refusal_of<c10::NotImplementedError>(call_of(x, x));
  EXPECT_TRUE(text.starts_with("[mala::attention_keys] the tensors are Double on cpu; ")) << text;
  EXPECT_TRUE(text.ends_with(" (the call had tokens of sizes [2, 3, 6, 8], Double on cpu)"))
      << text;
}

}  // namespace
}  // namespace mala::ops
