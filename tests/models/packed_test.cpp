// Packed layers against torch's plain ones.
#include "mala/models/vision/packed.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace mala::models {
namespace {

// A few roundings of either type, relative to the largest result.
double tolerance(torch::ScalarType type) { return type == torch::kFloat32 ? 1e-5 : 2e-2; }

double difference(const Tensor& actual, const Tensor& expected) {
  const Tensor wide = expected.to(torch::kFloat64);
  return ((actual.to(torch::kFloat64) - wide).abs().max() / wide.abs().max()).item<double>();
}

class Packed : public testing::TestWithParam<torch::ScalarType> {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    if (!can_pack(draw({8, 8}))) GTEST_SKIP() << "oneDNN has nothing for this type here";
  }

  Tensor draw(std::vector<int64_t> sizes) const { return torch::randn(sizes).to(GetParam()); }

  Tensor image(int64_t channels) const {
    return draw({2, 9, 7, channels}).permute({0, 3, 1, 2});  // channels-last, as inside the models
  }

  void expect_close(const Tensor& actual, const Tensor& expected) const {
    EXPECT_EQ(actual.sizes(), expected.sizes());
    EXPECT_EQ(actual.scalar_type(), GetParam());
    EXPECT_LT(difference(actual, expected), tolerance(GetParam()));
  }
};

TEST_P(Packed, ProjectsWithActivationAndSum) {
  const Tensor x = draw({2, 5, 7, 24}), weight = draw({40, 24}), bias = draw({40});
  const Tensor sum = draw({2, 5, 7, 40});
  const PackedLinear packed(weight);
  const Tensor plain =
      torch::linear(x.to(torch::kFloat32), weight.to(torch::kFloat32), bias.to(torch::kFloat32));
  expect_close(packed.apply(x, bias), plain);
  expect_close(packed.apply_gelu(x, bias), torch::gelu(plain));
  expect_close(packed.apply_add(x, bias, sum), plain + sum);
}

TEST_P(Packed, ConvolvesWithActivationAndSum) {
  struct Case {
    int64_t from, to;
    ConvShape shape;
  };
  for (const Case& c : {Case{3, 16, {.kernel = 3, .stride = 2}}, Case{16, 24, {.kernel = 3}},
                        Case{32, 32, {.kernel = 5, .stride = 1, .groups = 32}}}) {
    const Tensor x = image(c.from), bias = draw({c.to});
    const Tensor weight = draw({c.to, c.from / c.shape.groups, c.shape.kernel, c.shape.kernel});
    const PackedConv packed(weight, c.shape);
    const Tensor plain =
        torch::conv2d(x.to(torch::kFloat32), weight.to(torch::kFloat32), bias.to(torch::kFloat32),
                      c.shape.stride, c.shape.padding(), 1, c.shape.groups);
    const Tensor out = packed.apply(x, bias);
    expect_close(out, plain);
    EXPECT_TRUE(out.is_contiguous(torch::MemoryFormat::ChannelsLast));
    expect_close(packed.apply_gelu(x, bias), torch::gelu(plain));
    if (c.from == c.to) expect_close(packed.apply_add(x, bias, x), plain + x);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Packed, testing::Values(torch::kFloat32, torch::kBFloat16),
                         [](const auto& test) { return std::string(toString(test.param)); });

TEST(CanPack, LeavesOtherTypesToTorch) {
  EXPECT_FALSE(can_pack(torch::zeros({8, 8}, torch::kFloat64)));
  EXPECT_FALSE(can_pack(torch::zeros({8, 8}, torch::kFloat16)));
}

}  // namespace
}  // namespace mala::models
