// Reads the weights out of the operators and sets them beside the paper's formulas.
#include "bench/demo/ratio.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "mala/core/error.h"
#include "mala/nn/ratio.h"
#include "mala/ops/attention.h"

namespace mala::bench {

namespace {

using at::Tensor;

constexpr int kDim = 64;

// Queries of growing length, and keys: both are features, so positive. A short query shows the
// effect best: once it is long, its MALA weights have nearly reached their limit.
struct Scene {
  Tensor q, k;           // (1, 1, growths, D), (1, 1, keys, D)
  int64_t a = 0, b = 0;  // the two keys
};

const std::vector<double> kGrowths = {1, 2, 4, 8};

// Key A scores highest and key B next to half way between the mean and A, so that the weights of
// both are positive for every length of the query.
Scene make_scene() {
  at::manual_seed(1);
  const Tensor query = 0.1 * (at::elu(at::randn({1, 1, 1, kDim})) + 1);
  const Tensor growth = at::tensor(kGrowths, at::kFloat).view({1, 1, -1, 1});
  Scene scene{growth * query, at::elu(at::randn({1, 1, kRatioKeys, kDim})) + 1};
  const Tensor scores = at::matmul(scene.k, query.transpose(-2, -1)).flatten();  // (keys)
  scene.a = scores.argmax().item<int64_t>();
  const Tensor middle = 0.5 * (scores.mean() + scores.max());
  scene.b = (scores - middle).abs().argmin().item<int64_t>();
  return scene;
}

// With one-hot values the outputs are the weights themselves: (growths, keys).
Tensor measure_weights(const Scene& scene, Rule rule) {
  const Tensor one_hot = at::eye(kRatioKeys).view({1, 1, kRatioKeys, kRatioKeys});
  ops::AttentionArguments arguments;
  arguments.rule = rule;
  arguments.feature = Feature::kIdentity;
  arguments.eps = 0;
  return ops::attention(scene.q, scene.k, one_hot, arguments).squeeze(0).squeeze(0);
}

Tensor measure_softmax_weights(const Scene& scene) {
  const Tensor one_hot = at::eye(kRatioKeys).view({1, 1, kRatioKeys, kRatioKeys});
  return at::scaled_dot_product_attention(scene.q, scene.k, one_hot).squeeze(0).squeeze(0);
}

// From the scores of the first query in double. Queries and keys are features already, so softmax
// sees the same scores as the linear rules, without the division by the number of keys.
nn::RatioFormulas find_formulas(const Scene& scene) {
  const Tensor query = scene.q.select(2, 0).flatten().to(at::kDouble);   // (D)
  const Tensor keys = scene.k.view({kRatioKeys, kDim}).to(at::kDouble);  // (keys, D)
  const Tensor x = at::mv(keys, query) / (std::sqrt(double{kDim}) * kRatioKeys);
  const double x_a = x[scene.a].item<double>(), x_b = x[scene.b].item<double>();
  return {.logit_gap = kRatioKeys * (x_a - x_b),
          .x_a = x_a,
          .x_b = x_b,
          .s = x.sum().item<double>(),
          .keys = kRatioKeys};
}

double ratio(const Tensor& weights, int64_t row, const Scene& scene) {
  const double a = weights[row][scene.a].item<double>(), b = weights[row][scene.b].item<double>();
  check(a > 0 && b > 0, "magnitude_demo", "got weights ", a, " and ", b,
        " and needs two positive ones; is the operator built for this machine?");
  return a / b;
}

}  // namespace

std::vector<RatioRow> measure_ratios() {
  const Scene scene = make_scene();
  const nn::RatioFormulas formulas = find_formulas(scene);
  const Tensor softmax = measure_softmax_weights(scene);
  const Tensor linear = measure_weights(scene, Rule::kLinear);
  const Tensor mala = measure_weights(scene, Rule::kMala);
  std::vector<RatioRow> rows;
  for (size_t i = 0; i < kGrowths.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i);
    rows.push_back({.growth = kGrowths[i],
                    .softmax = ratio(softmax, row, scene),
                    .linear = ratio(linear, row, scene),
                    .mala = ratio(mala, row, scene),
                    .softmax_formula = formulas.softmax(kGrowths[i]),
                    .linear_formula = formulas.linear(),
                    .mala_formula = formulas.mala(kGrowths[i])});
  }
  return rows;
}

double largest_difference(const std::vector<RatioRow>& rows) {
  auto difference = [](double measured, double formula) {
    return std::abs(measured / formula - 1);
  };
  double largest = 0;
  for (const RatioRow& row : rows) {
    largest = std::max({largest, difference(row.softmax, row.softmax_formula),
                        difference(row.linear, row.linear_formula),
                        difference(row.mala, row.mala_formula)});
  }
  return largest;
}

}  // namespace mala::bench
