// What the probe takes out is what the model works on.
#include "mala/models/vision/probe.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/refusals.h"

namespace mala::models {
namespace {

// One block in the first stage, two in the others, and a mixer of each kind.
Mavit small_model() {
  torch::manual_seed(4);
  MavitConfig config = with_mixers(mavit_config("mavit_n"), "mala,softmax,inline,linear");
  for (size_t i = 0; i < config.stages.size(); ++i) config.stages[i].depth = i == 0 ? 1 : 2;
  Mavit model(config);
  const torch::NoGradGuard no_gradients;
  for (Tensor& parameter : model->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  model->eval();
  return model;
}

// The answer of a block whose attention is reckoned from the probe's tokens by full maps.
Tensor finish_block(nn::BlockImpl& block, const StageProbe& stage, const Tensor& pixels) {
  const nn::MapScores scores = score(stage, torch::arange(stage.grid.tokens()));
  const Tensor mixed = torch::matmul(nn::weights_of(stage.mixer, scores).to(torch::kFloat32),
                                     stage.v);  // (H, N, D)
  const Tensor placed = block.placed(pixels);
  const nn::PackedParts parts = block.attn->parts_of(block.norm1->forward(placed));
  const Tensor local = nn::convolve(block.attn->lepe, parts.v);
  const Tensor joined = nn::join_heads(mixed.unsqueeze(0)).view_as(local);
  const Tensor branch = nn::project(block.attn->proj, (joined + local) * parts.gate);
  const Tensor x = placed + block.gamma_1.flatten() * branch;
  return x + block.gamma_2.flatten() * block.ffn->forward(block.norm2->forward(x));
}

TEST(Probe, ItsMapsMakeTheModelsOwnAnswers) {
  const torch::NoGradGuard no_gradients;
  Mavit model = small_model();
  const Tensor image = torch::randn({1, 3, 40, 56});
  const std::vector<StageProbe> stages = probe(*model, image);
  ASSERT_EQ(stages.size(), 4u);
  Tensor x = model->patch_embed->forward(image);
  for (size_t i = 0; i < stages.size(); ++i) {
    Stage& stage = model->layers[i];
    Tensor inside = x;
    for (size_t b = 0; b + 1 < stage->blocks.size(); ++b)
      inside = stage->blocks[b]->forward(inside);
    const Tensor expected = stage->blocks.back()->forward(inside);
    const Tensor actual = finish_block(*stage->blocks.back(), stages[i], inside);
    const double off = ((actual - expected).abs().max() / expected.abs().max()).item<double>();
    EXPECT_LT(off, 1e-5) << "stage " << i + 1;  // float32
    EXPECT_EQ(stages[i].grid.tokens(), stages[i].q.size(1));
    x = stage->forward(x);
  }
}

TEST(Probe, RefusesMoreThanOnePicture) {
  Mavit model = small_model();
  EXPECT_TRUE(test::says(test::refusal([&] {
                           probe(*model, torch::randn({2, 3, 32, 32}));
                         }),
                         "got 2 pictures"));
}

}  // namespace
}  // namespace mala::models
