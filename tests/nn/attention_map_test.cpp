// Maps of weights against what the rules themselves answer.
#include "mala/nn/attention_map.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>

namespace mala::nn {
namespace {

constexpr GridSize kGrid{6, 9};
constexpr int64_t kHeads = 2, kDim = 16;
constexpr Mixer kMixers[] = {Mixer::kSoftmax, Mixer::kLinear, Mixer::kInline, Mixer::kMala};
constexpr double kAngleRounding =
    1e-5;  // RoPE's tables are float32 for softmax, the values are not

struct Tokens {
  Tensor q, k, v;  // (H, N, D)
};

Tokens random_tokens() {
  torch::manual_seed(3);
  const auto draw = [] { return torch::randn({kHeads, kGrid.tokens(), kDim}, torch::kFloat64); };
  return {draw(), draw(), draw()};
}

Tensor all_queries() { return torch::arange(kGrid.tokens()); }

class AttentionMap : public testing::TestWithParam<Mixer> {};

TEST_P(AttentionMap, TimesValuesIsWhatTheRuleAnswers) {
  const Tokens x = random_tokens();
  for (const std::optional<GridSize> grid : {std::optional(kGrid), std::optional<GridSize>()}) {
    const Tensor answer = mix(GetParam(), {.q = x.q.unsqueeze(0),
                                           .k = x.k.unsqueeze(0),
                                           .v = x.v.unsqueeze(0),
                                           .grid = grid});  // (1, N, H * D)
    const Tensor weights = weights_of(GetParam(), score(x.q, x.k, all_queries(), grid));
    const Tensor expected = torch::matmul(weights, x.v);
    EXPECT_LT((split_heads(answer, kHeads).squeeze(0) - expected).abs().max().item<double>(),
              kAngleRounding);
  }
}

TEST_P(AttentionMap, GivesTheQueriesThatWereAskedFor) {
  const Tokens x = random_tokens();
  const Tensor some = torch::tensor({7, 0, 53}, torch::kInt64);
  const Tensor all = weights_of(GetParam(), score(x.q, x.k, all_queries(), kGrid));
  const Tensor few = weights_of(GetParam(), score(x.q, x.k, some, kGrid));
  EXPECT_LT((few - all.index_select(1, some)).abs().max().item<double>(), 1e-12);
}

// Without rotation every rule's weights sum to one, the linear ones up to the operator's epsilon.
TEST_P(AttentionMap, SumsToOneWithoutRotation) {
  const Tokens x = random_tokens();
  const Tensor weights = weights_of(GetParam(), score(x.q, x.k, all_queries(), {}));
  EXPECT_LT((weights.sum(-1) - 1).abs().max().item<double>(), 1e-5);
}

// A longer query is a longer query: the same as scaling it before.
TEST_P(AttentionMap, GrowsAsItsFormulaSays) {
  const Tokens x = random_tokens();
  const MapScores scores = score(x.q, x.k, torch::tensor({5}, torch::kInt64), kGrid);
  const auto at = [](const Tensor& t, int64_t key) { return t[0][0][key].item<double>(); };
  const int64_t a = 5, b = 11;
  const RatioFormulas formulas = ratio_formulas(scores, 0, 0, a, b);
  for (const double growth : {1.0, 2.0, 5.0}) {
    const Tensor weights = weights_of(GetParam(), scores, growth);
    const double expected = GetParam() == Mixer::kSoftmax  ? formulas.softmax(growth)
                            : GetParam() == Mixer::kLinear ? formulas.linear()
                            : GetParam() == Mixer::kMala   ? formulas.mala(growth)
                                                           : formulas.inline_attention(growth);
    EXPECT_NEAR(at(weights, a) / at(weights, b) / expected, 1, 1e-4) << "growth " << growth;
  }
}

// One key that answers the query, and others that turn away: every rule must find it.
TEST_P(AttentionMap, FindsThePlantedKey) {
  Tokens x = random_tokens();
  const int64_t query = 20, key = 47;
  x.k.select(1, key).copy_(6 * x.q.select(1, query));
  const MapScores scores = score(x.q, x.k, torch::tensor({query}, torch::kInt64), {});
  const Tensor weights = weights_of(GetParam(), scores);
  for (int64_t head = 0; head < kHeads; ++head) {
    EXPECT_EQ(weights[head][0].argmax().item<int64_t>(), key) << "head " << head;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, AttentionMap, testing::ValuesIn(kMixers),
                         [](const auto& test) { return std::string(word_for(test.param)); });

// mala = inline + linear - mean, weight by weight.
TEST(AttentionMapRules, AddUp) {
  const Tokens x = random_tokens();
  const MapScores scores = score(x.q, x.k, all_queries(), kGrid);
  const Tensor sum = weights_of(Mixer::kInline, scores) + weights_of(Mixer::kLinear, scores) -
                     1.0 / static_cast<double>(kGrid.tokens());
  EXPECT_LT((weights_of(Mixer::kMala, scores) - sum).abs().max().item<double>(), 1e-12);
}

}  // namespace
}  // namespace mala::nn
