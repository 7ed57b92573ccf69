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
  float gain;
};

template <typename T>
__device__ __forceinline__ RowWeights row_weights(const Call<T>& call, float c, float s, float r) {
  const RuleTerms<float> terms = rule_terms_of(call.rule, s, nearly_inverse(s + call.eps));
  RowWeights weights{.product = c * terms.gain,
                     .product_slope = c * terms.gain_slope,
                     .mean = 1.0f,
                     .mean_slope = 0.0f,
                     .gain = terms.gain};
  if (call.centred()) return weights;
  weights.mean = fmaf(terms.gain, r, -terms.shift);
  weights.mean_slope = fmaf(terms.gain_slope, r, -terms.shift_slope);
  return weights;
}

// Of a query: s, and r where the rotation makes it another number.
struct Magnitude {
  float s = 0.0f, r = 0.0f;
};

// What the features of neighbouring columns meet: the mean keys, and the rotated ones.
template <int kCount>
struct MeanKeys {
  Some<kCount> key, rotated_key;

  template <int kDim>
  __device__ __forceinline__ MeanKeys(const QueryVectors<kDim>& head, int column)
      : key(some_of<kCount>(head.key, column)),
        rotated_key(some_of<kCount>(head.rotated_key, column)) {}
};

// Features before and after they turn.
template <int kCount>
struct Features {
  Some<kCount> plain, turned;
};

// phi of numbers, or of eight as they lie in memory.
template <class Kind, typename T, int kCount>
__device__ __forceinline__ Some<kCount> features_of(const Call<T>& call, const Some<kCount>& raw) {
  return features<T>(Kind::feature(call), raw);
}
template <class Kind>
__device__ __forceinline__ Eight features_of(const Call<BFloat16>&, const uint4& raw) {
  static_assert(Kind::kUsual);
  return usual_features(raw);
}

// Of neighbouring elements, added to the magnitude.
template <class Kind, typename T, int kCount, class Raw>
__device__ __forceinline__ Features<kCount> meet_keys(const Call<T>& call, const Turning& turning,
                                                      const MeanKeys<kCount>& keys,
                                                      const Spot& spot, int column, const Raw& raw,
                                                      Magnitude& magnitude) {
  // Asked for first, so that they arrive while phi is computed.
  const Turns<Kind::kHow, kCount> by(turning, spot, column);
  const Some<kCount> phi = features_of<Kind>(call, raw);
  const Some<kCount> turned = rotated<false>(phi, turning, by);
  magnitude.s = dot(phi, keys.key, magnitude.s);
  if (Kind::kTurns) magnitude.r = dot(turned, keys.rotated_key, magnitude.r);
  return {phi, turned};
}

// Without turns both are one; the printed norm takes r for s.
template <class Kind, typename T>
__device__ __forceinline__ RowWeights weights_of_sums(const Call<T>& call, float c,
                                                      const Magnitude& magnitude) {
  const float rotated = Kind::kTurns ? magnitude.r : magnitude.s;
  return row_weights(call, c, call.rotated_magnitude() ? rotated : magnitude.s, rotated);
}
// From what each lane of a row has.
template <class Kind, typename T>
__device__ __forceinline__ RowWeights weights_of(const Call<T>& call, float c,
                                                 const Magnitude& magnitude) {
  return weights_of_sums<Kind>(call, c,
                               {row_sum(magnitude.s), Kind::kTurns ? row_sum(magnitude.r) : 0.0f});
}

}  // namespace mala::gpu
