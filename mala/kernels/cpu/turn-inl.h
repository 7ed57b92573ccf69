// The rotation of one token's rows, by angles that all its heads share.
#if defined(MALA_CPU_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_TURN_INL_H_
#undef MALA_CPU_TURN_INL_H_
#else
#define MALA_CPU_TURN_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/phases-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A row x turns to x * own + (x with its pairs swapped) * other.
template <typename T>
class TokenTurn {
 public:
  // Of the one token of which `tokens` are.
  explicit TokenTurn(const Tokens& tokens) : turns_(tokens.angles->rotates()) {
    if (!turns_) return;
    Phases phases;
    set_phases_of_token(*tokens.angles, tokens.earlier, tokens.image_width, phases);
    const int64_t dim = 2 * tokens.angles->pairs;
    for (int64_t t = 0; t < dim / 2; ++t) {
      own_[2 * t] = own_[2 * t + 1] = static_cast<T>(phases.cosine[t]);
      other_[2 * t + 1] = static_cast<T>(phases.sine[t]);
      other_[2 * t] = -other_[2 * t + 1];
    }
    // Padding stays finite.
    std::fill(own_ + dim, own_ + padded(dim), T(0));
    std::fill(other_ + dim, other_ + padded(dim), T(0));
  }

  HWY_INLINE bool turns() const { return turns_; }

  // In place; the row is whole vectors.
  HWY_INLINE void apply(T* row, int64_t width) const {
#if HWY_TARGET == HWY_SCALAR
    for (int64_t j = 0; j < width; j += 2) {
      const T x0 = row[j], x1 = row[j + 1];
      row[j] = x0 * own_[j] + x1 * other_[j];
      row[j + 1] = x1 * own_[j + 1] + x0 * other_[j + 1];
    }
#else
    const hn::ScalableTag<T> d;
    for (int64_t j = 0; j < width; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto x = hn::LoadU(d, row + j);
      const auto turned = hn::MulAdd(hn::Reverse2(d, x), hn::Load(d, other_ + j),
                                     hn::Mul(x, hn::Load(d, own_ + j)));
      hn::StoreU(turned, d, row + j);
    }
#endif
  }

 private:
  bool turns_;
  alignas(64) T own_[kMostPad];
  alignas(64) T other_[kMostPad];
};

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
