// Two keys, and their weights under each rule for queries of growing length.
#include "mala/tasks/explain/curves.h"

#include <limits>

#include "mala/tasks/explain/measures.h"

namespace mala::tasks {
namespace {

constexpr double kMostGrowth = 8;
constexpr double kNear = 1.5;
constexpr int kSteps = 28;  // from 1 to kMostGrowth, in quarters

// Whether each key's weight is positive under every rule, for all growths: weights move evenly or
// in one direction, so both ends say it. (N)
Tensor stays_positive(const nn::MapScores& scores, int64_t head) {
  Tensor positive = torch::ones({scores.products.size(-1)}, torch::kBool);
  for (const nn::Mixer rule : kExplained) {
    for (const double growth : {1.0, kMostGrowth}) {
      positive &= weights_of(rule, scores, growth)[head][0] > 0;
    }
  }
  return positive;
}

struct Pair {
  int64_t a = 0, b = 0;
};

// Key a has the largest product, and key b lies half way between it and the least that stays
// positive: near enough to be compared, far enough to be told apart. Where there is such a key,
// b's logit is lower too, so that softmax agrees which of the two is ahead, but by no more than
// kNear, so that its ratio is not beyond all others from the beginning.
std::optional<Pair> choose_pair(const nn::MapScores& scores, int64_t head) {
  const Tensor positive = stays_positive(scores, head);
  const Tensor x = scores.products[head][0], logits = scores.logits[head][0];
  const double none = -std::numeric_limits<double>::infinity();
  const int64_t a = x.masked_fill(~positive, none).argmax().item<int64_t>();
  Tensor others = positive & (x < x[a]);
  const Tensor agreeing = others & (logits < logits[a]);
  if (agreeing.any().item<bool>()) others = agreeing;
  const Tensor near = agreeing & (logits > logits[a] - kNear);
  if (near.any().item<bool>()) others = near;
  if (!others.any().item<bool>()) return std::nullopt;
  const Tensor middle = 0.5 * (x[a] + x.masked_fill(~others, -none).min());
  const Tensor distance = (x - middle).abs().masked_fill(~others, -none);
  return Pair{a, distance.argmin().item<int64_t>()};
}

double formula_of(nn::Mixer rule, const nn::RatioFormulas& formulas, double growth) {
  switch (rule) {
    case nn::Mixer::kSoftmax:
      return formulas.softmax(growth);
    case nn::Mixer::kLinear:
      return formulas.linear();
    case nn::Mixer::kInline:
      return formulas.inline_attention(growth);
    default:
      break;
  }
  return formulas.mala(growth);
}

}  // namespace

std::optional<RatioCurves> ratio_curves(const nn::MapScores& scores) {
  const int64_t head = scores.magnitude.flatten().argmax().item<int64_t>();
  const std::optional<Pair> pair = choose_pair(scores, head);
  if (!pair) return std::nullopt;
  RatioCurves curves{.a = pair->a, .b = pair->b, .head = head};
  const nn::RatioFormulas formulas = ratio_formulas(scores, head, 0, pair->a, pair->b);
  for (int step = 0; step <= kSteps; ++step) {
    const double growth = 1 + step * (kMostGrowth - 1) / kSteps;
    curves.growths.push_back(growth);
    for (size_t i = 0; i < kRules; ++i) {
      const Tensor weights = weights_of(kExplained[i], scores, growth)[head][0];
      curves.measured[i].push_back((weights[pair->a] / weights[pair->b]).item<double>());
      curves.formula[i].push_back(formula_of(kExplained[i], formulas, growth));
    }
  }
  return curves;
}

}  // namespace mala::tasks
