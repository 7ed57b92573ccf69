// The operators of mala/ops/attention.h on a GPU, as C++ programs call them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "mala/core/error.h"
#include "mala/ops/attention.h"

namespace mala::ops {
namespace {

using at::Tensor;

// float32 on either side, and narrow types rounded once after different float32 sums; relative to
// the largest value. float16 has eight times the digits of bfloat16.
constexpr double kCudaTolerance = 5e-5, kBFloat16Tolerance = 2e-2, kHalfTolerance = 2e-2 / 8;

class GpuAttentionOp : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "torch finds no GPU";
    at::manual_seed(3);
  }
};

// q, k, v, local and gate, on the CPU: slices of one projection, two heads of keys for four.
std::vector<Tensor> tokens(at::ScalarType type) {
  const Tensor wide = at::randn({2, 200, 4 * 32 + 2 * 32 + 2 * 48 + 4 * 48 + 4 * 48}).to(type);
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (const auto& [heads, dim] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 32}, {2, 32}, {2, 48}, {4, 48}, {4, 48}}) {
    const Tensor slice = wide.narrow(2, first, heads * dim).unflatten(2, {heads, dim});
    parts.push_back(slice.transpose(1, 2));
    first += heads * dim;
  }
  return parts;
}

// out and the gradients of the sum of its sine, computed on `device`, back on the CPU in double.
std::vector<Tensor> results(const std::vector<Tensor>& inputs, at::Device device,
                            AttentionArguments arguments) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.to(device).detach().requires_grad_());
  arguments.local = leaves[3];
  arguments.gate = leaves[4];
  const Tensor out = attention(leaves[0], leaves[1], leaves[2], arguments);
  std::vector<Tensor> all = torch::autograd::grad({out.sin().sum()}, leaves);
  all.push_back(out.detach());
  for (Tensor& x : all) x = x.to(at::kCPU).to(at::kDouble);
  return all;
}

double relative_difference(const Tensor& x, const Tensor& y) {
  return ((x - y).abs().max() / y.abs().max()).item<double>();
}

TEST_F(GpuAttentionOp, EqualsTheCpu) {
  const AttentionArguments whole = {.norm = Norm::kBalanced, .rope = Rope::Kind::kLine};
  const AttentionArguments counted = {.rope = Rope::Kind::kGrid,
                                      .grid_width = {14, 15},
                                      .key_lengths = at::tensor({200, 9}, at::kLong)};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const double tolerance = type == at::kFloat  ? kCudaTolerance
                             : type == at::kHalf ? kHalfTolerance
                                                 : kBFloat16Tolerance;
    const std::vector<Tensor> inputs = tokens(type);
    for (const AttentionArguments& arguments : {whole, counted}) {
      const auto actual = results(inputs, at::kCUDA, arguments);
      const auto expected = results(inputs, at::kCPU, arguments);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LT(relative_difference(actual[i], expected[i]), tolerance)
            << "result " << i << " in " << type;
      }
    }
  }
}

TEST_F(GpuAttentionOp, SaysWhatIsMissing) {
  const Tensor x = at::rand({1, 2, 6, 8}, at::kCUDA);
  const Tensor wide = x.to(at::kDouble);
  EXPECT_THROW(attention(wide, wide, wide), c10::NotImplementedError);
  EXPECT_TRUE(at::isfinite(attention(x, x, x)).all().item<bool>());
}

TEST_F(GpuAttentionOp, ErrorsTellSizesAndDevice) {
  const Tensor x = at::rand({1, 2, 6, 8}, at::kCUDA);
  try {
    attention(x, x, x.narrow(2, 0, 5));
    ADD_FAILURE() << "values for other keys were taken";
  } catch (const mala::Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("[mala::attention] v has 5")) << text;
    EXPECT_TRUE(text.ends_with("tokens of sizes [1, 2, 6, 8], Float on cuda:0")) << text;
  }
}

}  // namespace
}  // namespace mala::ops
