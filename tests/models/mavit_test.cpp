// MAViT's sizes, names and shapes.
#include "mala/models/vision/mavit.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/count_parameters.h"

namespace mala::models {
namespace {

TEST(Mavit, HasThePublishedNumberOfParameters) {
  const std::map<std::string, int64_t> published{{"mavit_t", 16'449'128},
                                                 {"mavit_s", 27'142'568},
                                                 {"mavit_b", 49'792'648},
                                                 {"mavit_l", 97'766'088}};
  for (const auto& [name, count] : published) {
    EXPECT_EQ(count_parameters(*Mavit(mavit_config(name))), count) << name;
  }
}

std::set<std::string> names_of(const torch::nn::Module& model) {
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) names.insert(item.key());
  for (const auto& item : model.named_buffers()) names.insert(item.key());
  return names;
}

void add_norm(std::set<std::string>& names, const std::string& name, bool is_batch_norm) {
  for (const char* part : {".weight", ".bias"}) names.insert(name + part);
  if (!is_batch_norm) return;
  for (const char* part : {".running_mean", ".running_var", ".num_batches_tracked"}) {
    names.insert(name + part);
  }
}

void add_block(std::set<std::string>& names, const std::string& block) {
  for (const char* conv :
       {".attn.qkvo", ".attn.lepe", ".attn.proj", ".ffn.fc1", ".ffn.fc2", ".ffn.dwconv", ".pos"}) {
    names.insert({block + conv + ".weight", block + conv + ".bias"});
  }
  add_norm(names, block + ".norm1.norm", false);
  add_norm(names, block + ".norm2.norm", false);
  names.insert({block + ".gamma_1", block + ".gamma_2"});
}

TEST(Mavit, HasTheNamesOfReleasedCheckpoints) {
  std::set<std::string> expected;
  for (int i = 0; i < 4; ++i) {
    const std::string stem = "patch_embed.proj.";
    for (const char* part : {".weight", ".bias"}) {
      expected.insert(stem + std::to_string(3 * i) + part);
    }
    add_norm(expected, stem + std::to_string(3 * i + 1), true);
    const std::string stage = "layers." + std::to_string(i);
    expected.insert(stage + ".RoPE.angle");
    const int depth = std::array{2, 2, 6, 2}[static_cast<size_t>(i)];
    for (int j = 0; j < depth; ++j) add_block(expected, stage + ".blocks." + std::to_string(j));
    if (i == 3) continue;
    expected.insert({stage + ".downsample.reduction.weight", stage + ".downsample.reduction.bias"});
    add_norm(expected, stage + ".downsample.norm", true);
  }
  expected.insert({"proj.weight", "proj.bias", "head.weight", "head.bias"});
  add_norm(expected, "norm", true);
  EXPECT_EQ(names_of(*Mavit(mavit_config("mavit_t"))), expected);
}

TEST(Mavit, TakesPicturesOfAnySizeInAnyLayout) {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(1);
  Mavit model(mavit_config("mavit_n"));
  model->eval();
  for (const auto& [height, width] : {std::pair{32, 32}, {64, 48}, {33, 71}, {1, 1}}) {
    const Tensor images = torch::randn({2, 3, height, width});
    const Tensor logits = model->forward(images);
    EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, 10}));
    const Tensor again = model->forward(images.contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_LT((logits - again).abs().max().item<double>(), 1e-6) << height << " x " << width;
  }
}

// Every mixer has the same weights, so the same weights must answer differently under each.
TEST(Mavit, MixersShareWeightsButNotAnswers) {
  const torch::NoGradGuard no_gradients;
  const Tensor images = torch::randn({1, 3, 32, 32});
  std::vector<Tensor> answers;
  for (const char* mixer : {"mala", "softmax", "linear", "inline"}) {
    torch::manual_seed(3);
    Mavit model(with_mixers(mavit_config("mavit_n"), mixer));
    for (Tensor& parameter : model->parameters()) parameter.mul_(4);
    model->eval();
    answers.push_back(model->forward(images));
    for (size_t i = 0; i + 1 < answers.size(); ++i) {
      EXPECT_FALSE(torch::allclose(answers[i], answers.back(), 1e-3)) << mixer << " and " << i;
    }
  }
}

TEST(Mavit, LearnsAFewPicturesByHeart) {
  torch::manual_seed(4);
  Mavit model(mavit_config("mavit_n"));
  const Tensor images = torch::randn({8, 3, 32, 32}), labels = torch::arange(8);
  torch::optim::AdamW optimizer(model->parameters(), 2e-3);
  double loss = 0;
  for (int step = 0; step < 25; ++step) {
    optimizer.zero_grad();
    const Tensor value = torch::cross_entropy_loss(model->forward(images), labels);
    value.backward();
    optimizer.step();
    loss = value.item<double>();
  }
  EXPECT_LT(loss, 0.3);  // guessing among ten gives 2.3
}

}  // namespace
}  // namespace mala::models
