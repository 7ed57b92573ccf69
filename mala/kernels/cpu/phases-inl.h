// The angles of one token's pairs, as cosines and sines in double.
#if defined(MALA_CPU_PHASES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_PHASES_INL_H_
#undef MALA_CPU_PHASES_INL_H_
#else
#define MALA_CPU_PHASES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "hwy/highway.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/rope.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Phases {
  static constexpr int64_t kMost = RopeFrequencies::kMaxPairs;
  alignas(64) double cosine[kMost];
  alignas(64) double sine[kMost];
};

// Some of a token's pairs. Rows are padded to whole eights of pairs.
struct Pairs {
  int64_t begin, end;
};

// What Highway has of plain C++ rounds products by themselves, and so do older instruction sets.
constexpr bool kFusedMultiplyAdd = (HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM_A64) &&
                                   HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;
constexpr double kMostAngle = 1e12;  // its quarter turns are far below 2^51

// cos and sin of r, at most an eighth of a turn, by their series: the next term is below 5e-17.
template <class D>
HWY_INLINE void series_cos_sin(D d, hn::Vec<D> r, hn::Vec<D>& cosine, hn::Vec<D>& sine) {
  static constexpr double kCos[] = {1.0 / 20922789888000,
                                    -1.0 / 87178291200,
                                    1.0 / 479001600,
                                    -1.0 / 3628800,
                                    1.0 / 40320,
                                    -1.0 / 720,
                                    1.0 / 24,
                                    -1.0 / 2,
                                    1.0};
  static constexpr double kSin[] = {
      -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
      -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
  const auto square = hn::Mul(r, r);
  cosine = hn::Set(d, kCos[0]);
  for (size_t i = 1; i < std::size(kCos); ++i) {
    cosine = hn::MulAdd(cosine, square, hn::Set(d, kCos[i]));
  }
  auto tail = hn::Set(d, kSin[0]);
  for (size_t i = 1; i < std::size(kSin); ++i) {
    tail = hn::MulAdd(tail, square, hn::Set(d, kSin[i]));
  }
  sine = hn::MulAdd(hn::Mul(tail, square), r, r);
}

// cos and sin of angles up to kMostAngle, to about 3e-16. Quarter turns are taken off with fused
// multiply-adds, whose products are exact: pi / 2 in two parts then has digits enough.
template <class D>
HWY_INLINE void cos_sin(D d, hn::Vec<D> angle, hn::Vec<D>& cosine, hn::Vec<D>& sine) {
  const hn::RebindToUnsigned<D> du;
  // Adding 1.5 * 2^52 rounds to a whole number and leaves it in the lowest bits.
  const auto magic = hn::Set(d, 6755399441055744.0);
  const auto shifted = hn::MulAdd(angle, hn::Set(d, 0.63661977236758134308), magic);
  const auto quarters = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(quarters, hn::Set(d, 1.57079632679489661923), angle);
  r = hn::NegMulAdd(quarters, hn::Set(d, 6.12323399573676588613e-17), r);
  hn::Vec<D> c, s;
  series_cos_sin(d, r, c, s);
  const auto bits = hn::BitCast(du, shifted);
  const auto odd = hn::RebindMask(d, hn::TestBit(bits, hn::Set(du, 1)));
  const auto sign = [&](auto count) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<62>(hn::And(count, hn::Set(du, 2))));
  };
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), sign(hn::Add(bits, hn::Set(du, 1))));
  sine = hn::Xor(hn::IfThenElse(odd, c, s), sign(bits));
}

// The angles of these pairs at a position, which is a row, a column or a place on a line.
HWY_INLINE void set_phases(const double* theta, Pairs pairs, int64_t position, Phases& phases) {
  const double at = static_cast<double>(position);
  const hn::CappedTag<double, kPad / 2> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t t = pairs.begin;
  for (; kFusedMultiplyAdd && std::abs(at) < kMostAngle && t + lanes <= pairs.end; t += lanes) {
    hn::Vec<decltype(d)> cosine, sine;
    cos_sin(d, hn::Mul(hn::Set(d, at), hn::LoadU(d, theta + t)), cosine, sine);
    hn::StoreU(cosine, d, phases.cosine + t);
    hn::StoreU(sine, d, phases.sine + t);
  }
  for (; t < pairs.end; ++t) {
    phases.cosine[t] = std::cos(at * theta[t]);
    phases.sine[t] = std::sin(at * theta[t]);
  }
}

// Those of one token; `token` counts from the sequence's first. Nothing where nothing turns.
HWY_INLINE void set_phases_of_token(const RopeAngles& angles, int64_t token, int64_t image_width,
                                    Phases& phases) {
  const Rope& rope = angles.rope;
  const int64_t position = rope.offset + token, pairs = angles.pairs;
  switch (rope.kind) {
    case Rope::Kind::kNone:
      return;
    case Rope::Kind::kLine:
      return set_phases(angles.turns->theta, {0, pairs}, position, phases);
    case Rope::Kind::kGrid:
      set_phases(angles.turns->theta, {0, pairs / 2}, position / image_width, phases);
      return set_phases(angles.turns->theta, {pairs / 2, pairs}, position % image_width, phases);
    case Rope::Kind::kTable:
      std::copy_n(rope.cos + token * rope.table_stride, pairs, phases.cosine);
      std::copy_n(rope.sin + token * rope.table_stride, pairs, phases.sine);
  }
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
