// Four or eight neighbouring elements of a row, the pieces that a thread loads, computes with and
// stores.
#pragma once

#include <cstdint>

#include "mala/core/dtypes.h"

namespace mala::gpu {

template <int kCount>
struct Some {
  float x[kCount];
};
using Four = Some<4>;
using Eight = Some<8>;

__device__ __forceinline__ uint32_t bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float float_of(uint32_t bits) { return __uint_as_float(bits); }

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(BFloat16 x) {
  return __uint_as_float(uint32_t{x.bits} << 16);
}
__device__ __forceinline__ float widen(Float16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

// Two numbers rounded to nearest even, the first in the lower half.
template <typename T>
__device__ __forceinline__ uint32_t pack(float low, float high);
template <>
__device__ __forceinline__ uint32_t pack<BFloat16>(float low, float high) {
  uint32_t two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}
template <>
__device__ __forceinline__ uint32_t pack<Float16>(float low, float high) {
  uint32_t two;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}

template <typename T>
__device__ __forceinline__ float low_of(uint32_t two) {
  return widen(T{static_cast<uint16_t>(two & 0xFFFFu)});
}
template <typename T>
__device__ __forceinline__ float high_of(uint32_t two) {
  return widen(T{static_cast<uint16_t>(two >> 16)});
}
template <>
__device__ __forceinline__ float high_of<BFloat16>(uint32_t two) {
  return __uint_as_float(two & 0xFFFF0000u);
}

template <typename T>
__device__ __forceinline__ T narrow(float x) {
  return T{static_cast<uint16_t>(pack<T>(x, 0.0f) & 0xFFFFu)};
}
template <>
__device__ __forceinline__ float narrow<float>(float x) {
  return x;
}

template <typename T>
__device__ __forceinline__ Eight unpack(uint4 raw) {
  const uint32_t twos[4] = {raw.x, raw.y, raw.z, raw.w};
  Eight e;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    e.x[2 * i] = low_of<T>(twos[i]);
    e.x[2 * i + 1] = high_of<T>(twos[i]);
  }
  return e;
}

// From an address of as many bytes as they have.
template <typename T>
__device__ __forceinline__ Four load_four(const T* from) {
  const uint2 raw = *reinterpret_cast<const uint2*>(from);
  return {{low_of<T>(raw.x), high_of<T>(raw.x), low_of<T>(raw.y), high_of<T>(raw.y)}};
}
template <>
__device__ __forceinline__ Four load_four<float>(const float* from) {
  const float4 a = *reinterpret_cast<const float4*>(from);
  return {{a.x, a.y, a.z, a.w}};
}
__device__ __forceinline__ void store_four(float* to, const Four& a) {
  *reinterpret_cast<float4*>(to) = {a.x[0], a.x[1], a.x[2], a.x[3]};
}

template <typename T>
__device__ __forceinline__ uint4 pack(const Eight& e) {
  return {pack<T>(e.x[0], e.x[1]), pack<T>(e.x[2], e.x[3]), pack<T>(e.x[4], e.x[5]),
          pack<T>(e.x[6], e.x[7])};
}

// From an address of 16 bytes.
template <typename T>
__device__ __forceinline__ Eight load_eight(const T* from) {
  return unpack<T>(*reinterpret_cast<const uint4*>(from));
}
template <>
__device__ __forceinline__ Eight load_eight<float>(const float* from) {
  const float4 a = *reinterpret_cast<const float4*>(from);
  const float4 b = *reinterpret_cast<const float4*>(from + 4);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

template <typename T>
__device__ __forceinline__ void store_eight(T* to, const Eight& e) {
  *reinterpret_cast<uint4*>(to) = pack<T>(e);
}
template <>
__device__ __forceinline__ void store_eight<float>(float* to, const Eight& e) {
  reinterpret_cast<float4*>(to)[0] = {e.x[0], e.x[1], e.x[2], e.x[3]};
  reinterpret_cast<float4*>(to)[1] = {e.x[4], e.x[5], e.x[6], e.x[7]};
}

template <int kCount>
__device__ __forceinline__ float dot(const Some<kCount>& a, const Some<kCount>& b, float sum) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum = fmaf(a.x[i], b.x[i], sum);
  return sum;
}

// to += factor * x
template <int kCount>
__device__ __forceinline__ void add_scaled(Some<kCount>& to, float factor, const Some<kCount>& x) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) to.x[i] = fmaf(factor, x.x[i], to.x[i]);
}

template <int kCount>
__device__ __forceinline__ Some<kCount> scaled(const Some<kCount>& x, float factor) {
  Some<kCount> y;
#pragma unroll
  for (int i = 0; i < kCount; ++i) y.x[i] = factor * x.x[i];
  return y;
}

template <int kCount>
__device__ __forceinline__ Some<kCount> times(Some<kCount> x, const Some<kCount>& y) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) x.x[i] *= y.x[i];
  return x;
}

}  // namespace mala::gpu
