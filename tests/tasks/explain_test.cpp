// An explanation against the model's own probe, and against what the paper proves.
#include "mala/tasks/explain/explain.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <numeric>

#include "mala/models/vision/probe.h"
#include "tests/support/refusals.h"

namespace mala::tasks {
namespace {

constexpr size_t kSoftmaxRule = 0, kLinearRule = 1, kMalaRule = 3;

// Weights that are large enough for queries to differ.
models::Mavit lively_model() {
  const torch::NoGradGuard no_gradients;
  torch::manual_seed(5);
  models::Mavit model(models::with_mixers(models::mavit_config("mavit_n"), "mala"));
  for (auto& item : model->named_parameters()) {
    if (item.key().find("qkvo.weight") != std::string::npos) item.value().mul_(8);
  }
  model->eval();
  return model;
}

struct Case {
  models::Mavit model = lively_model();
  torch::Tensor image = torch::randn({1, 3, 48, 64});
  Point point{0.7, 0.2};
  std::vector<StageExplanation> stages = explain(*model, image, point);
};

const Case& shared_case() {
  static const Case shared;
  return shared;
}

TEST(Explain, MapsAreTheRowsOfTheProbe) {
  const Case& c = shared_case();
  models::Mavit model = c.model;
  const auto probes = models::probe(*model, c.image);
  ASSERT_EQ(c.stages.size(), probes.size());
  for (size_t i = 0; i < probes.size(); ++i) {
    const StageExplanation& stage = c.stages[i];
    // 48 x 64 pixels at (0.7, 0.2), worked out by hand.
    EXPECT_EQ(stage.token % stage.grid.width, stage.grid.width * 7 / 10) << "stage " << i + 1;
    EXPECT_EQ(stage.token / stage.grid.width, stage.grid.height * 2 / 10) << "stage " << i + 1;
    const nn::MapScores scores = score(probes[i], torch::tensor({stage.token}, torch::kInt64));
    for (size_t rule = 0; rule < kRules; ++rule) {
      const torch::Tensor weights = weights_of(kExplained[rule], scores).squeeze(1);
      ASSERT_EQ(stage.maps[rule].weights.size(), static_cast<size_t>(stage.heads) + 1);
      for (int64_t head = 0; head < stage.heads; ++head) {
        const auto& shown = stage.maps[rule].weights[static_cast<size_t>(head) + 1];
        const torch::Tensor expected = weights[head] * static_cast<double>(shown.size());
        for (size_t j = 0; j < shown.size(); ++j) {
          const double weight = expected[static_cast<int64_t>(j)].item<double>();
          ASSERT_NEAR(shown[j], weight, 1e-5 * (1 + std::abs(weight)));
        }
      }
    }
  }
}

TEST(Explain, SoftmaxIsCloseToItself) {
  for (const StageExplanation& stage : shared_case().stages) {
    const RuleMeasures& softmax = stage.measures[kSoftmaxRule];
    EXPECT_NEAR(softmax.sum, 1, 1e-9);
    EXPECT_NEAR(softmax.divergence, 0, 1e-9);
    EXPECT_EQ(softmax.negative, 0);
    const bool has_order = stage.grid.tokens() > 1;
    EXPECT_NEAR(softmax.rank_correlation, has_order ? 1 : 0, 1e-9);
  }
}

TEST(Explain, LinearWeightsAreMalasWithoutTheLength) {
  for (const StageExplanation& stage : shared_case().stages) {
    EXPECT_LE(stage.magnitude.low, stage.magnitude.mean);
    EXPECT_LE(stage.length.mean, stage.length.high);
    EXPECT_GT(stage.magnitude.low, 0);  // ELU + 1 is positive
  }
}

TEST(Explain, RatiosGrowAsThePaperSays) {
  size_t followed = 0;
  for (const StageExplanation& stage : shared_case().stages) {
    if (!stage.ratio) continue;
    ++followed;
    const RatioCurves& curves = *stage.ratio;
    ASSERT_EQ(curves.growths.front(), 1);
    ASSERT_EQ(curves.growths.back(), 8);
    for (size_t rule = 0; rule < kRules; ++rule) {
      for (size_t i = 0; i < curves.growths.size(); ++i) {
        EXPECT_NEAR(curves.measured[rule][i] / curves.formula[rule][i], 1, 1e-4);
      }
    }
    const auto& linear = curves.measured[kLinearRule];
    const auto& mala = curves.measured[kMalaRule];
    EXPECT_NEAR(linear.back() / linear.front(), 1, 1e-4);
    EXPECT_GT(mala.back(), mala.front());
  }
  EXPECT_GE(followed, 2u) << "the test says little";
}

TEST(Explain, TakesPicturesOfOneToken) {
  models::Mavit model = lively_model();
  const auto stages = explain(*model, torch::randn({1, 3, 2, 2}), {0, 1});
  for (const StageExplanation& stage : stages) {
    EXPECT_EQ(stage.grid.tokens(), 1);
    EXPECT_FALSE(stage.ratio.has_value());
    EXPECT_NEAR(stage.maps[kSoftmaxRule].weights[0][0], 1, 1e-6);
  }
}

TEST(Explain, RefusesPointsOutsideAndBrokenWeights) {
  models::Mavit model = lively_model();
  const torch::Tensor image = torch::randn({1, 3, 32, 32});
  EXPECT_TRUE(test::says(test::refusal([&] { explain(*model, image, {1.5, 0}); }), "outside"));
  EXPECT_TRUE(test::says(test::refusal([&] { explain(*model, image, {NAN, 0}); }), "outside"));
  const torch::NoGradGuard no_gradients;
  model->layers[1]->blocks[0]->attn->qkvo->bias[0] = NAN;
  EXPECT_TRUE(test::says(test::refusal([&] { explain(*model, image, {}); }), "stage 2"));
}

}  // namespace
}  // namespace mala::tasks
