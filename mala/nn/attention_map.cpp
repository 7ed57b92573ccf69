// Weights as docs/math.md defines them, with the defaults of the operator: the features ELU + 1 and
// the norm `published`, where the magnitude is taken before rotation.
#include "mala/nn/attention_map.h"

#include <cmath>

#include "mala/nn/rope.h"
#include "mala/ops/attention.h"

namespace mala::nn {
namespace {

// `queries` of a and all of b, (H, N, D) each, rotated and multiplied: (H, Q, N).
Tensor rotated_products(const Tensor& a, const Tensor& b, const Tensor& queries,
                        const std::optional<GridSize>& grid) {
  Tensor rows = a, columns = b;
  if (grid) {
    const Tensor rotation = grid_rotation(*grid, a.size(-1), a.device());
    rows = rotate(rows, rotation);
    columns = rotate(columns, rotation);
  }
  return torch::matmul(rows.index_select(1, queries), columns.transpose(1, 2));
}

}  // namespace

MapScores score(const Tensor& q, const Tensor& k, const Tensor& queries,
                std::optional<GridSize> grid) {
  const Tensor wide_q = q.to(torch::kFloat64), wide_k = k.to(torch::kFloat64);
  const Tensor features_q = torch::elu(wide_q) + 1, features_k = torch::elu(wide_k) + 1;
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const double tokens = static_cast<double>(k.size(1));
  const Tensor mean_key = features_k.mean(1).unsqueeze(-1);  // (H, D, 1)
  const Tensor asking = features_q.index_select(1, queries);
  return {.logits = scale * rotated_products(wide_q, wide_k, queries, grid),
          .products = scale / tokens * rotated_products(features_q, features_k, queries, grid),
          .magnitude = scale * torch::matmul(asking, mean_key).squeeze(-1),
          .lengths = wide_q.index_select(1, queries).norm(2, -1)};
}

Tensor weights_of(Mixer mixer, const MapScores& scores, double growth) {
  if (mixer == Mixer::kSoftmax) return torch::softmax(growth * scores.logits, -1);
  const double tokens = static_cast<double>(scores.products.size(-1));
  const Tensor s = growth * scores.magnitude.unsqueeze(-1);  // (H, Q, 1)
  const Tensor x = growth * scores.products;
  const Tensor inverse = 1 / (s + ops::AttentionArguments{}.eps);
  if (mixer == Mixer::kLinear) return inverse * x;
  if (mixer == Mixer::kInline) return x - (s - 1) / tokens;
  if (mixer == Mixer::kMalaNoGain) return x - s / tokens;
  if (mixer == Mixer::kMalaNoShift) return (1 + inverse) * x;
  if (mixer == Mixer::kMalaBalanced) {
    const Tensor gained = (1 + inverse) * x;
    return gained - (gained.sum(-1, true) - 1) / tokens;
  }
  return (1 + inverse) * x - s / tokens;
}

RatioFormulas ratio_formulas(const MapScores& scores, int64_t head, int64_t query, int64_t a,
                             int64_t b) {
  const auto at = [&](const Tensor& x, int64_t key) { return x[head][query][key].item<double>(); };
  return {.logit_gap = at(scores.logits, a) - at(scores.logits, b),
          .x_a = at(scores.products, a),
          .x_b = at(scores.products, b),
          .s = scores.magnitude[head][query].item<double>(),
          .keys = static_cast<double>(scores.products.size(-1))};
}

}  // namespace mala::nn
