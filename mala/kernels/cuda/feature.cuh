// Feature maps phi and their slopes, some numbers at a time.
#pragma once

#include "mala/kernels/attention.h"
#include "mala/kernels/cuda/eight.cuh"

namespace mala::gpu {

// e^x. Rounding hides what the fast one is off by, except in float32.
template <typename T>
__device__ __forceinline__ float exponential(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
  return y;
}
template <>
__device__ __forceinline__ float exponential<float>(float x) {
  return expf(x);
}

// 1 / x, off by at most a unit in the last place, in one step. Numbers and inverses smaller than
// 2^-126 are zero.
__device__ __forceinline__ float nearly_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Of the two, or NaN where one is.
__device__ __forceinline__ float larger(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
__device__ __forceinline__ float smaller(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

// max(x, 0) + exp(min(x, 0)). Where exp is fast it costs less to overwrite it.
template <typename T>
__device__ __forceinline__ float elu1(float x) {
  float phi = exponential<T>(x);
  if (x > 0.0f) phi = x + 1.0f;
  return phi;
}
template <>
__device__ __forceinline__ float elu1<float>(float x) {
  return larger(x, 0.0f) + exponential<float>(smaller(x, 0.0f));
}

// The maps besides the usual one stand in functions of their own, so that kernels stay short.
template <typename T, int kCount>
__device__ __noinline__ Some<kCount> other_features(Feature feature, Some<kCount> x) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (feature == Feature::kRelu) x.x[i] = larger(x.x[i], 0.0f);
    if (feature == Feature::kExp) x.x[i] = exponential<T>(x.x[i]);
  }
  return x;
}

template <typename T, int kCount>
__device__ __forceinline__ Some<kCount> features(Feature feature, const Some<kCount>& raw) {
  if (feature != Feature::kElu1) return other_features<T>(feature, raw);
  Some<kCount> phi;
#pragma unroll
  for (int i = 0; i < kCount; ++i) phi.x[i] = elu1<T>(raw.x[i]);
  return phi;
}

// elu1 of two numbers of bfloat16 as they lie in memory, which are compared with zero at once.
__device__ __forceinline__ float2 elu1_of_two(uint32_t two) {
  const float low = low_of<BFloat16>(two), high = high_of<BFloat16>(two);
#if __CUDA_ARCH__ >= 900
  float2 phi = {exponential<BFloat16>(low), exponential<BFloat16>(high)};
  asm("{.reg .pred p, q; setp.gt.bf16x2 p|q, %2, %3; @p add.f32 %0, %4, %6; @q add.f32 %1, %5, "
      "%6;}"
      : "+f"(phi.x), "+f"(phi.y)
      : "r"(two), "r"(0), "f"(low), "f"(high), "f"(1.0f));
  return phi;
#else
  return {elu1<BFloat16>(low), elu1<BFloat16>(high)};
#endif
}

// The usual features of eight of them.
__device__ __forceinline__ Eight usual_features(uint4 raw) {
  const uint32_t twos[4] = {raw.x, raw.y, raw.z, raw.w};
  Eight phi;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = elu1_of_two(twos[i]);
    phi.x[2 * i] = two.x;
    phi.x[2 * i + 1] = two.y;
  }
  return phi;
}

static __device__ __noinline__ Eight times_other_slope(Feature feature, Eight phi, Eight y) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (feature == Feature::kRelu) y.x[i] = phi.x[i] > 0.0f ? y.x[i] : 0.0f;
    if (feature == Feature::kExp) y.x[i] *= phi.x[i];
  }
  return y;
}

// y * phi'(x), from phi(x): every map here allows it.
__device__ __forceinline__ Eight times_slope(Feature feature, const Eight& phi, const Eight& y) {
  if (feature != Feature::kElu1) return times_other_slope(feature, phi, y);
  Eight dx;
#pragma unroll
  for (int i = 0; i < 8; ++i) dx.x[i] = y.x[i] * smaller(phi.x[i], 1.0f);
  return dx;
}

}  // namespace mala::gpu
