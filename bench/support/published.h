// The published formula of magnitude-aware linear attention in eager torch, op by op.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mala::bench {

// (N, D) each, for the tokens of an image, row by row.
struct RopeTables {
  at::Tensor sin, cos;
};

// Angles are formed in double, then rounded to `dtype`.
RopeTables grid_rope_tables(int64_t tokens, int64_t width, int64_t dim, at::ScalarType dtype);

// x (..., N, D) with each token turned by its place.
at::Tensor rotate(const at::Tensor& x, const RopeTables& rope);

// Raw q, k, v (B, H, N, D) -> out (B, H, N, D), step by step as the released model computes it.
at::Tensor published_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const RopeTables& rope);

}  // namespace mala::bench
