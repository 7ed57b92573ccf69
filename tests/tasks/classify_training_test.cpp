// The loss of mixed and smoothed labels, and how deep layers lie.
#include "mala/tasks/classify_training.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "mala/models/vision/deit.h"
#include "mala/models/vision/mavit.h"
#include "mala/models/vision/resnet.h"

namespace mala::tasks {
namespace {

using torch::Tensor;

// Against torch's cross entropy of the labels written out as probabilities.
TEST(SoftCrossEntropy, IsThatOfTheWholeTargets) {
  torch::manual_seed(1);
  const Tensor logits = torch::randn({5, 7});
  const SoftLabels targets{.labels = torch::tensor({0, 3, 6, 2, 2}),
                           .others = torch::tensor({1, 3, 0, 5, 2}),
                           .share = torch::tensor({0.3, 1.0, 0.75, 0.0, 0.5}),
                           .smoothing = 0.1};
  const auto smoothed = [](const Tensor& labels) {
    return torch::one_hot(labels, 7).to(torch::kFloat32) * 0.9 + 0.1 / 7;
  };
  const Tensor share = targets.share.to(torch::kFloat32).unsqueeze(1);
  const Tensor whole = share * smoothed(targets.labels) + (1 - share) * smoothed(targets.others);
  const Tensor expected = torch::cross_entropy_loss(logits, whole);
  const Tensor found = soft_cross_entropy(logits, targets);
  EXPECT_NEAR(found.item<double>(), expected.item<double>(), 1e-6);  // rounding of float32
}

std::vector<std::string> names_of(const torch::nn::Module& model) {
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  return names;
}

TEST(LayerDepths, OfMavit) {
  const models::Mavit model(models::mavit_config("mavit_n"));  // 2, 3, 3 and 1 blocks
  const LayerDepths depths = layer_depths(names_of(*model));
  EXPECT_EQ(depths.count, 11);
  EXPECT_EQ(depths.of.at("patch_embed.proj.0.weight"), 0);
  EXPECT_EQ(depths.of.at("layers.0.blocks.0.attn.qkvo.weight"), 1);
  EXPECT_EQ(depths.of.at("layers.0.downsample.reduction.weight"), 2);
  EXPECT_EQ(depths.of.at("layers.2.blocks.2.ffn.fc1.bias"), 8);
  EXPECT_EQ(depths.of.at("layers.3.blocks.0.gamma_1"), 9);
  EXPECT_EQ(depths.of.at("norm.weight"), 10);
  EXPECT_EQ(depths.of.at("head.weight"), 10);
}

TEST(LayerDepths, OfAPlainViT) {
  const models::Deit model(models::deit_config("vit_n"));
  const LayerDepths depths = layer_depths(names_of(*model));
  EXPECT_EQ(depths.count, 8);
  EXPECT_EQ(depths.of.at("pos_embed"), 0);
  EXPECT_EQ(depths.of.at("patch_embed.proj.weight"), 0);
  EXPECT_EQ(depths.of.at("blocks.5.mlp.fc1.weight"), 6);
  EXPECT_EQ(depths.of.at("norm.weight"), 7);
  EXPECT_EQ(depths.of.at("head.bias"), 7);
}

// The numbers of the publication: 0.27 million.
TEST(Resnet, HasThePublishedSize) {
  models::Resnet model(models::ResnetConfig{});
  int64_t count = 0;
  for (const Tensor& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 269'722);
  EXPECT_EQ(model->forward(torch::randn({2, 3, 32, 32})).sizes(), (std::vector<int64_t>{2, 10}));
}

}  // namespace
}  // namespace mala::tasks
