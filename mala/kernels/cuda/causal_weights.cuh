// What the rule makes of a token in a causal sweep: its weights, and their slopes; and the scores
// within its tile by these weights.
#pragma once

#include "mala/kernels/cuda/causal_tile.cuh"

namespace mala::gpu {

// Whether keys and rotated keys are one.
template <class Kind, typename T>
__device__ __forceinline__ bool nothing_turns(const Call<T>& call) {
  using How = Walk<Kind::kHow>;
  return !How::turns(call.q_turning) && !How::turns(call.k_turning);
}

// What becomes of a query: out = product * (R phi(q) . S) + mean * U + base * centre, with S and U
// about the centre, and the slopes that the backward needs.
struct CausalWeights {
  float product, mean, base;
  float c, r, gain, gain_slope, shift_slope, inverse;  // of the count of keys
};

// `s` and `r` still without c; `inverse` is that of the count of keys.
template <typename T>
__device__ __forceinline__ CausalWeights causal_weights(const Call<T>& call, float c, float inverse,
                                                        float s, float r) {
  const float rotated = c * r, magnitude = call.rotated_magnitude() ? rotated : c * s;
  const RuleTerms<float> terms =
      rule_terms_of(call.rule, magnitude, nearly_inverse(magnitude + call.eps));
  const float mean = call.centred() ? fmaf(-terms.gain, rotated, 1.0f) : -terms.shift;
  return {.product = c * terms.gain,
          .mean = mean * inverse,
          .base = call.centred() ? 1.0f : fmaf(terms.gain, rotated, -terms.shift),
          .c = c,
          .r = rotated,
          .gain = terms.gain,
          .gain_slope = terms.gain_slope,
          .shift_slope = terms.shift_slope,
          .inverse = inverse};
}
template <typename T>
__device__ __forceinline__ CausalWeights causal_weights(const Call<T>& call, const Task& task,
                                                        int64_t token, float s, float r) {
  const int64_t seen = task.sequence.earlier + min(token + 1, task.sequence.k_count);
  const double inverse = 1.0 / static_cast<double>(seen);
  const auto c = static_cast<float>(call.scale * (call.key_mean ? inverse : 1.0));
  return causal_weights(call, c, static_cast<float>(inverse), s, r);
}

// With which weights the sums of rotated and of plain keys enter a query's gradient.
struct CausalSlopes {
  float rotated, plain;
};
// `met` is R phi(q) . S g, and the others are g times the values' sum and their centre.
template <typename T>
__device__ __forceinline__ CausalSlopes causal_slopes(const Call<T>& call, const CausalWeights& w,
                                                      float met, float by_values, float by_centre) {
  const float by_product = w.c * met, by_mean = w.inverse * by_values;
  const float slope = call.centred() ? w.gain_slope * (by_product - w.r * by_mean)
                                     : fmaf(w.gain_slope, fmaf(w.r, by_centre, by_product),
                                            -w.shift_slope * (by_mean + by_centre));
  const bool late = call.rotated_magnitude();
  const float rotated =
      (call.centred() ? -w.gain * by_mean : w.gain * by_centre) + (late ? slope : 0.0f);
  return {w.c * rotated, late ? 0.0f : w.c * slope};
}

// Leaves a row's scores with tokens up to its own; their sum, of this lane's.
template <typename T>
__device__ __forceinline__ float mask_scores(Scores<T>& scores, int row, int half, int end) {
  const SweepLane lane;
  float sum = 0.0f;
  for_each_half(0, end, [&](int n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      float& score = scores.at(n, half, odd);
      if (8 * n + token_of_column(2 * lane.t + odd) > row) score = 0.0f;
      sum += score;
    }
  });
  return sum;
}

// scores = product * scores + mean, of the tokens up to the row's own. The two nearly cancel where
// r is large, and cost fewer digits here than in the sums over keys.
template <typename T>
__device__ __forceinline__ void weigh_scores(Scores<T>& scores, int row, int half, int end,
                                             float product, float mean) {
  const SweepLane lane;
  for_each_half(0, end, [&](int n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      float& score = scores.at(n, half, odd);
      const bool seen = 8 * n + token_of_column(2 * lane.t + odd) <= row;
      score = seen ? fmaf(product, score, mean) : 0.0f;
    }
  });
}

}  // namespace mala::gpu
