// The four rules against the full N x N maps of weights that they stand for.
#include "mala/nn/mixer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <string>

#include "mala/core/error.h"
#include "mala/nn/grid_attention.h"

namespace mala::nn {
namespace {

constexpr GridSize kMixerGrid{5, 7};
constexpr int64_t kMixerHeads = 2, kHeadDim = 16;

// (..., N, D) turned pair by pair, from the definition with sines and cosines.
Tensor turned(const Tensor& x) {
  Tensor out = x.clone();
  const int64_t quarter = kHeadDim / 4;
  for (int64_t token = 0; token < kMixerGrid.tokens(); ++token) {
    for (int64_t pair = 0; pair < 2 * quarter; ++pair) {
      const bool by_row = pair < quarter;
      const auto place =
          static_cast<double>(by_row ? token / kMixerGrid.width : token % kMixerGrid.width);
      const auto t = static_cast<double>(pair % quarter);
      const double angle = place * std::pow(10000.0, -t / static_cast<double>(quarter - 1));
      const Tensor a = x.select(-2, token).select(-1, 2 * pair);
      const Tensor b = x.select(-2, token).select(-1, 2 * pair + 1);
      out.select(-2, token).select(-1, 2 * pair).copy_(a * std::cos(angle) - b * std::sin(angle));
      out.select(-2, token)
          .select(-1, 2 * pair + 1)
          .copy_(b * std::cos(angle) + a * std::sin(angle));
    }
  }
  return out;
}

Tensor scaled_products(const Tensor& q, const Tensor& k) {
  return torch::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(kHeadDim));
}

// The map of weights (B, H, N, N).
Tensor weights(Mixer mixer, const Tensor& q, const Tensor& k) {
  if (mixer == Mixer::kSoftmax) return torch::softmax(scaled_products(turned(q), turned(k)), -1);
  const auto features = [&](const Tensor& x) {
    if (mixer == Mixer::kMalaRelu) return torch::relu(x);
    return mixer == Mixer::kMalaExp ? torch::exp(x) : torch::elu(x) + 1;
  };
  const Tensor fq = features(q), fk = features(k);
  const auto tokens = static_cast<double>(kMixerGrid.tokens());
  const Tensor s = scaled_products(fq, fk).mean(-1, true);
  const Tensor x = scaled_products(turned(fq), turned(fk)) / tokens;
  if (mixer == Mixer::kLinear) return x / (s + 1e-6);
  if (mixer == Mixer::kInline) return x - (s - 1) / tokens;
  if (mixer == Mixer::kMalaNoGain) return x - s / tokens;
  if (mixer == Mixer::kMalaNoShift) return (1 + 1 / (s + 1e-6)) * x;
  if (mixer == Mixer::kMalaBalanced) {
    const Tensor gained = (1 + 1 / (s + 1e-6)) * x;
    return gained - (gained.sum(-1, true) - 1) / tokens;
  }
  return (1 + 1 / (s + 1e-6)) * x - s / tokens;
}

class MixerRules : public testing::TestWithParam<Mixer> {};

TEST_P(MixerRules, MixesAsItsMapOfWeightsSays) {
  torch::manual_seed(1);
  const Tensor packed = torch::randn(
      {2, kMixerGrid.height, kMixerGrid.width, 4 * kMixerHeads * kHeadDim}, torch::kFloat64);
  const auto parts = packed.chunk(4, -1);
  const Tensor local = torch::randn_like(parts[0]);
  const Tensor out =
      mix_on_grid(GetParam(), {parts[0], parts[1], parts[2], parts[3]}, local, kMixerHeads);

  const auto heads = [](const Tensor& x) { return split_heads(x.flatten(1, 2), kMixerHeads); };
  const Tensor mixed =
      torch::matmul(weights(GetParam(), heads(parts[0]), heads(parts[1])), heads(parts[2]));
  const Tensor expected = (join_heads(mixed).view_as(out) + local) * parts[3];
  EXPECT_LT((out - expected).abs().max().item<double>(), 1e-6);  // angles are float32
}

TEST_P(MixerRules, GoesWithoutGridLocalTermAndGate) {
  torch::manual_seed(2);
  const Tensor q = torch::randn({1, 2, 9, 8}), k = torch::randn({1, 2, 9, 8});
  const Tensor out = mix(GetParam(), {.q = q, .k = k, .v = torch::ones({1, 2, 9, 8})});
  EXPECT_EQ(out.sizes(), torch::IntArrayRef({1, 9, 16}));
  if (GetParam() == Mixer::kMalaNoGain || GetParam() == Mixer::kMalaNoShift) return;
  // Without rotation every whole rule's weights sum to one.
  EXPECT_LT((out - 1).abs().max().item<double>(), 1e-4);
}

TEST_P(MixerRules, HasItsWord) { EXPECT_EQ(mixer_named(word_for(GetParam())), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Every, MixerRules,
                         testing::Values(Mixer::kMala, Mixer::kSoftmax, Mixer::kLinear,
                                         Mixer::kInline, Mixer::kMalaBalanced, Mixer::kMalaRelu,
                                         Mixer::kMalaExp, Mixer::kMalaNoGain, Mixer::kMalaNoShift),
                         [](const auto& test) { return std::string(word_for(test.param)); });

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Mixer, RefusesOtherWordsAndHeads) {
  EXPECT_EQ(message_of([] { mixer_named("mamba"); }),
            "[mixer] 'mamba' is no mixer; use mala, softmax, linear or inline, or one of"
            " mala_balanced, mala_relu, mala_exp, mala_no_gain, mala_no_shift");
  EXPECT_NE(message_of([] { GridAttention(24, 2, Mixer::kMala); }).find("dim 24 with 2 heads"),
            std::string::npos);
}

}  // namespace
}  // namespace mala::nn
