// What the rule makes of a query: its magnitude, and the weights that follow from it.
#pragma once

#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/head.cuh"
#include "mala/kernels/cuda/task.cuh"
#include "mala/kernels/rule.h"

namespace mala::gpu {

// attention_i = product * (R phi(q_i) . S_c) + mean * mean value, and the slopes of both in s.
struct RowWeights {
  float product, product_slope;
  float mean, mean_slope;
  float gain, shift;
};

template <typename T>
__device__ __forceinline__ RowWeights row_weights(const Call<T>& call, float c, float s, float r) {
  const RuleTerms<float> terms = rule_terms(call.rule, s, call.eps);
  RowWeights weights{.product = c * terms.gain,
                     .product_slope = c * terms.gain_slope,
                     .mean = 1.0f,
                     .mean_slope = 0.0f,
                     .gain = terms.gain,
                     .shift = terms.shift};
  if (call.centred()) return weights;
  weights.mean = fmaf(terms.gain, r, -terms.shift);
  weights.mean_slope = fmaf(terms.gain_slope, r, -terms.shift_slope);
  return weights;
}

// Of a query: s, and r where the rotation makes it another number.
struct Magnitude {
  float s = 0.0f, r = 0.0f;
};

// Adds the features of eight elements to it, and returns them turned.
template <bool kTurns, typename T, int kDim>
__device__ __forceinline__ Eight meet_keys(const Call<T>& call, const QueryVectors<kDim>& head,
                                           const Spot& spot, int column, const Eight& raw,
                                           Magnitude& magnitude) {
  if (!kTurns || !call.q_turning.turns) {
    const Eight phi = features<T>(call.feature, raw);
    magnitude.s = dot(phi, eight_of(head.key, column), magnitude.s);
    if (kTurns && !call.centred()) {  // the keys may turn
      magnitude.r = dot(phi, eight_of(head.rotated_key, column), magnitude.r);
    }
    return phi;
  }
  const Turns by = turns_of_eight(call.q_turning, spot, column);
  const Eight phi = features<T>(call.feature, raw);
  const Eight turned = rotated<false>(phi, by);
  magnitude.s =
      dot(call.rotated_magnitude() ? turned : phi, eight_of(head.key, column), magnitude.s);
  if (!call.centred()) {
    magnitude.r = dot(turned, eight_of(head.rotated_key, column), magnitude.r);
  }
  return turned;
}

// Sums of the lanes of a row. Without turns r is s.
template <bool kTurns, typename T>
__device__ __forceinline__ RowWeights weights_of(const Call<T>& call, float c,
                                                 const Magnitude& magnitude) {
  const float s = row_sum(magnitude.s);
  return row_weights(call, c, s, kTurns ? row_sum(magnitude.r) : s);
}

}  // namespace mala::gpu
