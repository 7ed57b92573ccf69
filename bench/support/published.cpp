// The published formula: feature map, magnitude, rotation, state, output.
#include "bench/support/published.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

namespace mala::bench {

namespace {

using at::Tensor;

// (x0, x1) -> (-x1, x0) for neighbours.
Tensor rotate_pairs(const Tensor& x) {
  const Tensor even = x.slice(-1, 0, std::nullopt, 2), odd = x.slice(-1, 1, std::nullopt, 2);
  return at::stack({-odd, even}, -1).flatten(-2);
}

}  // namespace

Tensor rotate(const Tensor& x, const RopeTables& rope) {
  return x * rope.cos + rotate_pairs(x) * rope.sin;
}

RopeTables grid_rope_tables(int64_t tokens, int64_t width, int64_t dim, at::ScalarType dtype) {
  const Tensor exponent = at::linspace(0, 1, dim / 4, at::kDouble);
  const Tensor angle = at::pow(10000.0, -exponent).repeat_interleave(2);  // (D / 2)
  const Tensor token = at::arange(tokens, at::kDouble).unsqueeze(1);      // (N, 1)
  const Tensor row = at::floor(token / static_cast<double>(width));
  const Tensor column = token - row * static_cast<double>(width);
  const Tensor angles = at::cat({row * angle, column * angle}, 1);  // (N, D)
  return {at::sin(angles).to(dtype), at::cos(angles).to(dtype)};
}

Tensor published_attention(const Tensor& q_raw, const Tensor& k_raw, const Tensor& v,
                           const RopeTables& rope) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_raw.size(-1)));
  const double split = std::sqrt(scale / static_cast<double>(k_raw.size(-2)));
  Tensor q = at::elu(q_raw) + 1;
  Tensor k = at::elu(k_raw) + 1;
  const Tensor z = at::matmul(q, k.mean(-2, true).transpose(-2, -1)) * scale;  // (B, H, N, 1)
  q = rotate(q, rope);
  k = rotate(k, rope);
  const Tensor kv = at::matmul(k.transpose(-2, -1) * split, v * split);  // (B, H, D, E)
  return at::matmul(q, kv) * (1 + 1 / (z + 1e-6)) - z * v.mean(2, true);
}

}  // namespace mala::bench
