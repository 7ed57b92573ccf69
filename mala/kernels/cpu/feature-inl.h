// Feature maps phi and their slopes, on vectors.
#if defined(MALA_CPU_FEATURE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_FEATURE_INL_H_
#undef MALA_CPU_FEATURE_INL_H_
#else
#define MALA_CPU_FEATURE_INL_H_
#endif

#include <cmath>
#include <type_traits>

#include "hwy/highway.h"
#include "mala/kernels/attention.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x within a bound, where NaN stays NaN: vector instructions give the second operand then, and
// Highway's scalar ones the number.
template <class D>
HWY_INLINE hn::Vec<D> at_least(D d, double bound, hn::Vec<D> x) {
  const auto least = hn::Set(d, static_cast<hn::TFromD<D>>(bound));
  return HWY_TARGET == HWY_SCALAR ? hn::IfThenElse(hn::Lt(x, least), least, x) : hn::Max(least, x);
}

template <class D>
HWY_INLINE hn::Vec<D> at_most(D d, double bound, hn::Vec<D> x) {
  const auto most = hn::Set(d, static_cast<hn::TFromD<D>>(bound));
  return HWY_TARGET == HWY_SCALAR ? hn::IfThenElse(hn::Gt(x, most), most, x) : hn::Min(most, x);
}

// exp(x) to about one unit in the last place, as 2^n exp(r) with |r| <= ln(2) / 2; 0 below the
// smallest normal number. x must be below 88.8, where the result is infinity.
template <class D>
HWY_INLINE hn::Vec<D> exp_float(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto bounded = at_least(d, -88.0, x);
  // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the lowest bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto shifted = hn::MulAdd(bounded, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(shifted, magic);
  // ln(2) in two parts, the first with so few digits that n times it is exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // exp(r) = 1 + r + r^2 q(r), with the q of least relative error: 3e-9.
  auto q = hn::Set(d, 0.00138144649f);
  q = hn::MulAdd(q, r, hn::Set(d, 0.00836878084f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.0416683927f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.166665196f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.49999994f));
  const auto exp_r = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127));
  return hn::Mul(exp_r, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

// Doubles serve gradient checks, not speed.
template <class D>
HWY_INLINE hn::Vec<D> exp_double(D d, hn::Vec<D> x) {
  HWY_ALIGN double lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = std::exp(lanes[i]);
  return hn::Load(d, lanes);
}

template <class D>
HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return exp_float(d, x);
  } else {
    return exp_double(d, x);
  }
}

template <Feature kFeature, class D>
HWY_INLINE hn::Vec<D> feature(D d, hn::Vec<D> x) {
  if constexpr (kFeature == Feature::kElu1) {
    return hn::Add(at_least(d, 0.0, x), exp(d, at_most(d, 0.0, x)));
  } else if constexpr (kFeature == Feature::kRelu) {
    return at_least(d, 0.0, x);
  } else if constexpr (kFeature == Feature::kExp) {
    return exp(d, at_most(d, sizeof(hn::TFromD<D>) == 4 ? 88.8 : 710.0, x));
  } else {
    return x;
  }
}

// phi'(x), from phi(x): every map here allows it.
template <Feature kFeature, class D>
HWY_INLINE hn::Vec<D> feature_slope(D d, hn::Vec<D> phi) {
  using T = hn::TFromD<D>;
  const auto one = hn::Set(d, T(1));
  if constexpr (kFeature == Feature::kElu1) {
    return at_most(d, 1.0, phi);
  } else if constexpr (kFeature == Feature::kRelu) {
    return hn::IfThenElseZero(hn::Gt(phi, hn::Zero(d)), one);
  } else if constexpr (kFeature == Feature::kExp) {
    return phi;
  } else {
    return one;
  }
}

// Calls run(std::integral_constant<Feature, feature>).
template <class Run>
HWY_INLINE void with_feature(Feature feature, Run&& run) {
  switch (feature) {
    case Feature::kElu1:
      return run(std::integral_constant<Feature, Feature::kElu1>{});
    case Feature::kRelu:
      return run(std::integral_constant<Feature, Feature::kRelu>{});
    case Feature::kExp:
      return run(std::integral_constant<Feature, Feature::kExp>{});
    case Feature::kIdentity:
      return run(std::integral_constant<Feature, Feature::kIdentity>{});
  }
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
