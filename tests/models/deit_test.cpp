// DeiT's sizes, names, and what its mixers share.
#include "mala/models/vision/deit.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "mala/core/error.h"
#include "tests/models/count_parameters.h"

namespace mala::models {
namespace {

TEST(Deit, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(count_parameters(*Deit(deit_config("deit_t"))), 5'717'416);
  EXPECT_EQ(count_parameters(*Deit(deit_config("deit_s"))), 22'050'664);
}

TEST(Deit, HasTheNamesOfReleasedCheckpoints) {
  Deit model(deit_config("deit_t"));
  const auto parameters = model->named_parameters();
  for (const char* name :
       {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight",
        "blocks.11.attn.qkv.bias", "blocks.3.attn.proj.weight", "blocks.3.norm2.bias",
        "blocks.3.mlp.fc1.weight", "blocks.3.mlp.fc2.bias", "norm.weight", "head.bias"}) {
    EXPECT_TRUE(parameters.contains(name)) << name;
  }
  EXPECT_EQ(parameters.size(), 4 + 12 * 12 + 4u);
}

TEST(Deit, EveryMixerTakesTheSameWeightsAndAnySize) {
  const torch::NoGradGuard no_gradients;
  const Tensor images = torch::randn({2, 3, 80, 64});
  std::vector<Tensor> answers;
  for (const auto mixer :
       {nn::Mixer::kMala, nn::Mixer::kSoftmax, nn::Mixer::kLinear, nn::Mixer::kInline}) {
    DeitConfig config = deit_config("deit_t");
    config.mixer = mixer;
    config.depth = 2;
    torch::manual_seed(1);
    Deit model(config);
    model->eval();
    for (Tensor& parameter : model->parameters()) parameter.mul_(3);
    answers.push_back(model->forward(images));
    EXPECT_EQ(answers.back().sizes(), torch::IntArrayRef({2, 1000}));
    for (size_t i = 0; i + 1 < answers.size(); ++i) {
      EXPECT_FALSE(torch::allclose(answers[i], answers.back(), 1e-3)) << i;
    }
  }
}

TEST(Deit, RefusesOtherNamesAndPictures) {
  EXPECT_THROW(deit_config("deit_x"), Error);
  Deit model(deit_config("deit_t"));
  EXPECT_THROW(model->forward(torch::randn({1, 3, 15, 64})), Error);
  EXPECT_THROW(model->forward(torch::randn({1, 4, 64, 64})), Error);
}

}  // namespace
}  // namespace mala::models
