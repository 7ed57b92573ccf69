// Rows of bfloat16 and float16 to float and back, rounded to nearest even; float to double and
// back.
#if defined(MALA_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CONVERT_INL_H_
#undef MALA_CPU_CONVERT_INL_H_
#else
#define MALA_CPU_CONVERT_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/core/dtypes.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const BFloat16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// Highway's own conversion cuts off; this rounds.
template <class D>
HWY_INLINE void store_rounded(D, hn::Vec<D> x, BFloat16* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::BitCast(d32, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(d32, 0x7FFF)), odd);
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
  const auto result = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(x)), quiet, rounded);
  hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(result)), d16, reinterpret_cast<uint16_t*>(to));
}

// Sets with conversion instructions use them; below, the plain functions serve.
#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM_A64
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const Float16* from) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
}

template <class D>
HWY_INLINE void store_rounded(D, hn::Vec<D> x, Float16* to) {
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, x), d16, reinterpret_cast<hwy::float16_t*>(to));
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const Float16* from) {
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = to_float(from[i]);
  return hn::Load(d, lanes);
}

template <class D>
HWY_INLINE void store_rounded(D d, hn::Vec<D> x, Float16* to) {
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = round_to<Float16>(lanes[i]);
}
#endif

// The largest tag whose vectors divide rows of this length, a multiple of 8.
template <class Run>
HWY_INLINE void with_dividing_tag(int64_t count, Run&& run) {
  if (count % 16 == 0) return run(hn::ScalableTag<float>());
  run(hn::CappedTag<float, 8>());
}

template <typename Narrow>
HWY_INLINE void convert_row(const Narrow* from, int64_t count, float* to) {
  with_dividing_tag(count, [&](auto d) HWY_ATTR {
    for (int64_t j = 0; j < count; j += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(load_as_float(d, from + j), d, to + j);
    }
  });
}

template <typename Narrow>
HWY_INLINE void convert_row(const float* from, int64_t count, Narrow* to) {
  with_dividing_tag(count, [&](auto d) HWY_ATTR {
    for (int64_t j = 0; j < count; j += static_cast<int64_t>(hn::Lanes(d))) {
      store_rounded(d, hn::LoadU(d, from + j), to + j);
    }
  });
}

HWY_INLINE void convert_row(const float* from, int64_t count, float* to) {
  std::copy_n(from, count, to);
}

HWY_INLINE void convert_row(const double* from, int64_t count, double* to) {
  std::copy_n(from, count, to);
}

// For sums in double, whatever the arithmetic's type is.
using Doubles = hn::CappedTag<double, 8>;
constexpr int64_t kDoubles = static_cast<int64_t>(hn::MaxLanes(Doubles()));

HWY_INLINE hn::Vec<Doubles> load_as_double(const double* from) {
  return hn::LoadU(Doubles(), from);
}
HWY_INLINE hn::Vec<Doubles> load_as_double(const float* from) {
  return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<float, Doubles>(), from));
}

HWY_INLINE void store_double(hn::Vec<Doubles> x, double* to) { hn::StoreU(x, Doubles(), to); }
HWY_INLINE void store_double(hn::Vec<Doubles> x, float* to) {
  const hn::Rebind<float, Doubles> half;
  hn::StoreU(hn::DemoteTo(half, x), half, to);
}

// `count` is a multiple of 8.
template <typename T>
HWY_INLINE void copy_as_double(const T* from, int64_t count, double* to) {
  for (int64_t j = 0; j < count; j += kDoubles) store_double(load_as_double(from + j), to + j);
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
