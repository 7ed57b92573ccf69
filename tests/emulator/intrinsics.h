// The device functions of CUDA that kernels use. Others are as easily added.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include "tests/emulator/ptx.h"
#include "tests/emulator/vectors.h"

// Threads that wait for each other.
using MalaWhere = mala::emulator::Where;
inline void __syncthreads(const MalaWhere& where = MalaWhere::current()) {
  mala::emulator::sync_threads(0, 0, false, where);
}
inline int __syncthreads_or(int vote, const MalaWhere& where = MalaWhere::current()) {
  return mala::emulator::sync_threads(0, 0, vote != 0, where) > 0;
}
inline void __syncwarp(uint32_t mask = ~0u, const MalaWhere& where = MalaWhere::current()) {
  mala::emulator::sync_warp(mask, where);
}
template <typename T>
T __shfl_sync(uint32_t mask, T x, int lane, const MalaWhere& where = MalaWhere::current()) {
  mala::emulator::shuffle(mask, &x, sizeof x, lane % 32, where);
  return x;
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T x, int lanes, const MalaWhere& where = MalaWhere::current()) {
  mala::emulator::shuffle(mask, &x, sizeof x, mala::emulator::current_lane() ^ lanes, where);
  return x;
}
[[noreturn]] inline void __trap(const MalaWhere& where = MalaWhere::current()) {
  mala::emulator::fail_at(where, "__trap()");
}

inline void __builtin_assume(bool holds, const MalaWhere& where = MalaWhere::current()) {
  if (!holds) mala::emulator::fail_at(where, "an assumption does not hold");
}

// Memory. No two threads run at once, so that nothing needs to be atomic.
template <typename T>
T __ldg(const T* at) {
  return *at;
}
inline size_t __cvta_generic_to_shared(const void* at) {
  return mala::emulator::shared_address(at);
}
template <typename T>
T atomicMin(T* at, T x) {
  const T before = *at;
  if (x < before) *at = x;
  return before;
}
template <typename T>
T atomicMax(T* at, T x) {
  const T before = *at;
  if (before < x) *at = x;
  return before;
}

// Numbers.
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline void sincospi(double x, double* sin, double* cos) {
  const double angle = std::numbers::pi * std::remainder(x, 2.0);
  *sin = std::sin(angle);
  *cos = std::cos(angle);
}
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }

// Of numbers of two types, and never NaN where only one of them is.
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> min(
    A a, B b) {
  const std::common_type_t<A, B> x = a, y = b;
  return y != y || x < y ? x : y;
}
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> max(
    A a, B b) {
  const std::common_type_t<A, B> x = a, y = b;
  return y != y || x > y ? x : y;
}
