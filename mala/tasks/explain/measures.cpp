// Entropies, divergences and ranks with plain torch functions.
#include "mala/tasks/explain/measures.h"

#include <algorithm>
#include <cmath>

namespace mala::tasks {
namespace {

constexpr double kLeastShare = 1e-3;  // of the mean share

Tensor ranks_of(const Tensor& x) {
  const Tensor values = x.contiguous();
  const Tensor sorted = std::get<0>(values.sort(-1));
  const Tensor first = torch::searchsorted(sorted, values);
  const Tensor last = torch::searchsorted(sorted, values, false, /*right=*/true);
  return 0.5 * (first + last).to(torch::kFloat64);
}

Tensor floored(const Tensor& shares) {
  const Tensor raised = shares.clamp_min(kLeastShare / static_cast<double>(shares.size(-1)));
  return raised / raised.sum(-1, true);
}

Tensor centred(const Tensor& x) { return x - x.mean(-1, true); }

}  // namespace

Tensor shares_of(const Tensor& weights) {
  const Tensor positive = weights.clamp_min(0);
  const Tensor sum = positive.sum(-1, true);
  const Tensor even = torch::full_like(weights, 1 / static_cast<double>(weights.size(-1)));
  return torch::where(sum > 0, positive / sum, even);
}

Tensor entropy_of(const Tensor& weights) {
  const Tensor shares = shares_of(weights);
  const double even = std::log(static_cast<double>(std::max<int64_t>(weights.size(-1), 2)));
  return -torch::xlogy(shares, shares).sum(-1) / even;
}

Tensor divergence(const Tensor& truth, const Tensor& map) {
  const Tensor from = floored(shares_of(truth)), to = floored(shares_of(map));
  return (torch::xlogy(from, from) - torch::xlogy(from, to)).sum(-1);
}

Tensor rank_correlation(const Tensor& a, const Tensor& b) {
  const Tensor x = centred(ranks_of(a)), y = centred(ranks_of(b));
  const Tensor size = (x.square().sum(-1) * y.square().sum(-1)).sqrt();
  return torch::where(size > 0, (x * y).sum(-1) / size, torch::zeros_like(size));
}

Tensor negative_part(const Tensor& weights) {
  const Tensor all = weights.abs().sum(-1);
  return torch::where(all > 0, (-weights).clamp_min(0).sum(-1) / all, torch::zeros_like(all));
}

}  // namespace mala::tasks
