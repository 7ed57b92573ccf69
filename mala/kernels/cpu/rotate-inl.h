// Rotations of neighbouring pairs: their cosines and sines, token by token, and their use.
#if defined(MALA_CPU_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_ROTATE_INL_H_
#undef MALA_CPU_ROTATE_INL_H_
#else
#define MALA_CPU_ROTATE_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/rope.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Walks from token to token and writes the (cos, sin) of each pair. Only the first angles come
// from the library's cos and sin; the next token's follow by one complex product in double,
// whose error after a million steps is still far below a float's.
template <typename T>
class RotationWalk {
 public:
  RotationWalk(const RopeAngles& angles, int64_t first) : angles_(angles), token_(first) {
    // Pairs beyond the head rotate by nothing, so that padding stays finite.
    std::fill_n(cos_, kMaxPairs, 1.0);
    std::fill_n(sin_, kMaxPairs, 0.0);
    const int64_t position = angles.rope.offset + first;
    if (angles.rope.kind == Rope::Kind::kLine) {
      set(0, angles.pairs, position);
    } else if (angles.rope.kind == Rope::Kind::kGrid) {
      column_ = position % angles.rope.width;
      set(0, angles.pairs / 2, position / angles.rope.width);
      set(angles.pairs / 2, angles.pairs, column_);
    }
  }

  // One row of `rotation` for each of the next `count` tokens: cos, sin, cos, sin, ...
  void write(int64_t count, T* rotation) {
    const int64_t stride = padded(2 * angles_.pairs);
    for (int64_t i = 0; i < count; ++i, ++token_) write_row(stride / 2, rotation + i * stride);
  }

 private:
  static constexpr int64_t kMaxPairs = RopeAngles::kMaxPairs;
  // Rows are padded to the wide number of pairs; a grid's halves may only have the narrow one.
  static constexpr int kWide = kPad / 2, kNarrow = 2;

  void set(int64_t begin, int64_t end, int64_t position) {
    for (int64_t t = begin; t < end; ++t) {
      const double angle = static_cast<double>(position) * angles_.theta[t];
      cos_[t] = std::cos(angle);
      sin_[t] = std::sin(angle);
    }
  }

  HWY_INLINE void write_row(int64_t pairs, T* row) {
    switch (angles_.rope.kind) {
      case Rope::Kind::kNone:
        return;
      case Rope::Kind::kLine:
        return write_pairs<kWide, true>(0, pairs, row);
      case Rope::Kind::kGrid:
        return angles_.pairs % (2 * kWide) == 0 ? write_in_grid<kWide>(pairs, row)
                                                : write_in_grid<kNarrow>(pairs, row);
      case Rope::Kind::kTable:
        copy_table_row();
        return write_pairs<kWide, false>(0, pairs, row);
    }
  }

  template <int kLanes>
  HWY_INLINE void write_in_grid(int64_t pairs, T* row) {
    const int64_t half = angles_.pairs / 2;
    write_pairs<kLanes, false>(0, half, row);
    write_pairs<kLanes, true>(half, pairs, row);
    if (++column_ < angles_.rope.width) return;
    turn(0, half);
    column_ = 0;
    std::fill_n(cos_ + half, half, 1.0);
    std::fill_n(sin_ + half, half, 0.0);
  }

  void copy_table_row() {
    const Rope& rope = angles_.rope;
    for (int64_t t = 0; t < angles_.pairs; ++t) {
      cos_[t] = rope.cos[token_ * rope.table_stride + t];
      sin_[t] = rope.sin[token_ * rope.table_stride + t];
    }
  }

  void turn(int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const double c = cos_[t], s = sin_[t];
      cos_[t] = c * angles_.step_cos[t] - s * angles_.step_sin[t];
      sin_[t] = s * angles_.step_cos[t] + c * angles_.step_sin[t];
    }
  }

  // Writes pairs of the row, up to kLanes at once, and if asked turns them on to the next token.
  template <int kLanes, bool kTurn>
  HWY_INLINE void write_pairs(int64_t begin, int64_t end, T* row) {
    const hn::CappedTag<double, kLanes> d64;
    const hn::Rebind<T, decltype(d64)> d;
    for (int64_t t = begin; t < end; t += static_cast<int64_t>(hn::Lanes(d64))) {
      const auto c = hn::LoadU(d64, cos_ + t), s = hn::LoadU(d64, sin_ + t);
      if constexpr (sizeof(T) == 4) {
        hn::StoreInterleaved2(hn::DemoteTo(d, c), hn::DemoteTo(d, s), d, row + 2 * t);
      } else {
        hn::StoreInterleaved2(c, s, d, row + 2 * t);
      }
      if (!kTurn) continue;
      const auto step_c = hn::LoadU(d64, angles_.step_cos + t);
      const auto step_s = hn::LoadU(d64, angles_.step_sin + t);
      hn::StoreU(hn::NegMulAdd(s, step_s, hn::Mul(c, step_c)), d64, cos_ + t);
      hn::StoreU(hn::MulAdd(c, step_s, hn::Mul(s, step_c)), d64, sin_ + t);
    }
  }

  const RopeAngles& angles_;
  int64_t token_ = 0, column_ = 0;
  alignas(64) double cos_[kMaxPairs], sin_[kMaxPairs];
};

// Pairs of one row of `dim` elements: x0 cos - x1 sin and x1 cos + x0 sin; `kSign` -1 turns back.
// `from` may be `to`.
#if HWY_TARGET == HWY_SCALAR  // one lane: pairs do not fit into a vector
template <int kSign, typename T>
HWY_INLINE void rotate_row(const T* from, const T* rotation, int64_t dim, T* to) {
  for (int64_t i = 0; i < dim; i += 2) {
    const T c = rotation[i], s = kSign * rotation[i + 1];
    const T x0 = from[i], x1 = from[i + 1];
    to[i] = x0 * c - x1 * s;
    to[i + 1] = x1 * c + x0 * s;
  }
}
#else
template <int kSign, typename T>
HWY_INLINE void rotate_row(const T* from, const T* rotation, int64_t dim, T* to) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < dim; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto x = hn::LoadU(d, from + i), turn = hn::LoadU(d, rotation + i);
    const auto sine = hn::DupOdd(turn), minus = hn::Neg(sine);
    const auto signed_sine = kSign > 0 ? hn::OddEven(sine, minus) : hn::OddEven(minus, sine);
    const auto turned = hn::MulAdd(hn::Reverse2(d, x), signed_sine, hn::Mul(x, hn::DupEven(turn)));
    hn::StoreU(turned, d, to + i);
  }
}
#endif

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
