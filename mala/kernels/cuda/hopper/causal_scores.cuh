// Scores of a tile's queries with its keys in the causal forward on Hopper, and the weights that
// they become.
#pragma once

#include "mala/kernels/cuda/causal_weights.cuh"
#include "mala/kernels/cuda/hopper/causal_tile.cuh"
#include "mala/kernels/cuda/hopper/shared_rows.cuh"

namespace mala::gpu::hopper {

// What tensor cores keep of a product in TF32, whose sides they both cut off.
constexpr float kKeptOfBoth = 1.0f - 2 * kCutOff;

// What becomes of a lane's two queries: out = factor * (product + ratio * U + base * centre).
struct SweepFactors {
  float factor[2], ratio[2], base[2];
};

// Of a lane's two queries, over the keys before the tile s and r, and over those of the tile their
// scores, still without c.
struct SweepScores {
  TwoSums s, r, in_tile;
};

// Scores with later tokens become zero; the sums of the others.
__device__ __forceinline__ void mask(TileRows& scores, const TileLane& lane, TwoSums& sums) {
  for_steps_up_to(lane.warp, [&](auto step) {
    constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
    if (kStep == lane.warp) clear_unseen<kFirst>(scores, lane);
#pragma unroll
    for (int i = kFirst; i < kFirst + 8; ++i) sums.of[i / 2 % 2] += scores.c[i];
  });
}

// With `seen` keys before the tile, which has `keys_left` from its first on. Values of the tile
// enter as they are: what they have in common is taken off the centre's weight.
template <class Kind>
__device__ __forceinline__ SweepFactors factors_of(const Call<BFloat16>& call, const TileLane& lane,
                                                   int seen, int keys_left, const SweepScores& of) {
  const SharedRows rows;
  const float scores = rows.sum(of.in_tile.of[0], of.in_tile.of[1]);
  const float rotated = rows.sum(of.r.of[0], of.r.of[1]) + scores;
  const float plain = Kind::kTurns ? rows.sum(of.s.of[0], of.s.of[1]) : rotated;
  const int row = rows.lower ? lane.row(1) : lane.row(0);
  const int of_tile = max(min(row + 1, keys_left), 0);
  const float inverse = nearly_inverse(static_cast<float>(seen + of_tile));
  const CausalWeights weights = causal_weights(
      call, call.key_mean ? call.scale * inverse : call.scale, inverse, plain, rotated);
  // So small a number leaves nothing of a product.
  const float factor = fabsf(weights.product) < 1e-30f ? 1e-30f : weights.product;
  const float of_factor = kKeptOfBoth * nearly_inverse(factor), ratio = weights.mean * of_factor;
  SweepFactors to;
  rows.tell(factor * (1.0f / kKeptOfBoth), to.factor);
  rows.tell(ratio, to.ratio);
  rows.tell(
      weights.base * of_factor - fmaf(ratio, static_cast<float>(of_tile), kKeptOfBoth * scores),
      to.base);
  return to;
}

// scores + ratio, of tokens up to the row's own, less what the product beside them lost. The two
// nearly cancel where r is large, and cost fewer digits here than in the sums over keys.
__device__ __forceinline__ PartRows weigh(TileRows& scores, const TileLane& lane,
                                          const SweepFactors& factors) {
  PartRows weights = {};
  for_steps_up_to(lane.warp, [&](auto step) {
    constexpr int kStep = decltype(step)::value, kFirst = 8 * kStep;
#pragma unroll
    for (int i = kFirst; i < kFirst + 8; ++i) {
      scores.c[i] = fmaf(scores.c[i], kKeptOfBoth, factors.ratio[i / 2 % 2]);
    }
    if (kStep == lane.warp) clear_unseen<kFirst>(scores, lane);
    weights.set(kStep, scores);
  });
  return weights;
}

}  // namespace mala::gpu::hopper
