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
// Highway's plain C++ the number.
constexpr bool kPlainCpp = HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128;

template <class D>
HWY_INLINE hn::Vec<D> at_least(D d, double bound, hn::Vec<D> x) {
  const auto least = hn::Set(d, static_cast<hn::TFromD<D>>(bound));
  return kPlainCpp ? hn::IfThenElse(hn::Lt(x, least), least, x) : hn::Max(least, x);
}

template <class D>
HWY_INLINE hn::Vec<D> at_most(D d, double bound, hn::Vec<D> x) {
  const auto most = hn::Set(d, static_cast<hn::TFromD<D>>(bound));
  return kPlainCpp ? hn::IfThenElse(hn::Gt(x, most), most, x) : hn::Min(most, x);
}

// exp(x) to about one unit in the last place, as 2^n exp(r) with |r| <= ln(2) / 2; 0 below the
// smallest normal number. Where x may be positive, up to the bound of 89 that the caller sets, the
// power of two is applied in two halves, since the largest would overflow alone.
template <bool kPositive, class D>
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
  const auto power_of_two = [&](auto exponent) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127))));
  };
  if constexpr (kPositive) {
    const auto whole = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic));
    const auto half = hn::ShiftRight<1>(whole);
    return hn::Mul(hn::Mul(exp_r, power_of_two(half)), power_of_two(hn::Sub(whole, half)));
  } else {
    return hn::Mul(exp_r, power_of_two(hn::BitCast(di, shifted)));
  }
}

// Doubles serve gradient checks, not speed.
template <class D>
HWY_INLINE hn::Vec<D> exp_double(D d, hn::Vec<D> x) {
  HWY_ALIGN double lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = std::exp(lanes[i]);
  return hn::Load(d, lanes);
}

template <bool kPositive, class D>
HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return exp_float<kPositive>(d, x);
  } else {
    return exp_double(d, x);
  }
}

template <Feature kFeature, class D>
HWY_INLINE hn::Vec<D> feature(D d, hn::Vec<D> x) {
  if constexpr (kFeature == Feature::kElu1) {
    return hn::Add(at_least(d, 0.0, x), exp<false>(d, at_most(d, 0.0, x)));
  } else if constexpr (kFeature == Feature::kRelu) {
    return at_least(d, 0.0, x);
  } else if constexpr (kFeature == Feature::kExp) {
    return exp<true>(d, at_most(d, sizeof(hn::TFromD<D>) == 4 ? 89.0 : 710.0, x));
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
