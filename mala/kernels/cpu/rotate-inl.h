// Rotations of neighbouring pairs, whose angles walk along with the tokens.
#if defined(MALA_CPU_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_ROTATE_INL_H_
#undef MALA_CPU_ROTATE_INL_H_
#else
#define MALA_CPU_ROTATE_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/phases-inl.h"
#include "mala/kernels/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Turns pairs (x0, x1) to (x0 c - x1 s, x1 c + x0 s), or back, by the lanes of c and s.
template <bool kBack, typename T, class D64>
HWY_INLINE void turn_pairs(D64 d64, hn::Vec<D64> c, hn::Vec<D64> s, const T* from, T* to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const hn::Rebind<float, D64> half;
    const hn::Twice<decltype(half)> d;
    alignas(64) static constexpr int32_t kTwice[16] = {0, 0, 1, 1, 2, 2, 3, 3,
                                                       4, 4, 5, 5, 6, 6, 7, 7};
    const auto twice = hn::SetTableIndices(d, kTwice);
    const auto cosine = hn::TableLookupLanes(hn::ZeroExtendVector(d, hn::DemoteTo(half, c)), twice);
    const auto sine = hn::TableLookupLanes(hn::ZeroExtendVector(d, hn::DemoteTo(half, s)), twice);
    const auto other_sine =
        kBack ? hn::OddEven(hn::Neg(sine), sine) : hn::OddEven(sine, hn::Neg(sine));
    const auto x = hn::LoadU(d, from);
    hn::StoreU(hn::MulAdd(hn::Reverse2(d, x), other_sine, hn::Mul(x, cosine)), d, to);
    return;
  }
#endif
  alignas(64) double cosine[hn::MaxLanes(d64)], sine[hn::MaxLanes(d64)];
  hn::Store(c, d64, cosine);
  hn::Store(kBack ? hn::Neg(s) : s, d64, sine);
  for (size_t t = 0; t < hn::Lanes(d64); ++t) {
    const T x0 = from[2 * t], x1 = from[2 * t + 1];
    const T cos = static_cast<T>(cosine[t]), sin = static_cast<T>(sine[t]);
    to[2 * t] = x0 * cos - x1 * sin;
    to[2 * t + 1] = x1 * cos + x0 * sin;
  }
}

// Rotates block after block of consecutive tokens. Only the first angles are formed from their
// position; the next token's follow by one complex product in double, in registers, whose
// error after a million steps is still far below a float's.
template <typename T>
class RotationWalk {
 public:
  explicit RotationWalk(const Tokens& tokens)
      : angles_(*tokens.angles),
        width_(tokens.image_width),
        earlier_(tokens.earlier),
        token_(tokens.earlier + tokens.span.first) {
    // Pairs beyond the head rotate by nothing, so that padding stays finite.
    std::fill_n(next_.cosine, Phases::kMost, 1.0);
    std::fill_n(next_.sine, Phases::kMost, 0.0);
    set_angles();
  }

  bool rotates() const { return angles_.rotates(); }

  // Rotates the next `count` tokens, or turns them back; `from` may be `to`.
  template <bool kBack>
  void rotate(Rows<const T> from, Rows<T> to, int64_t count) {
    if (!rotates()) return;
    copy(now_, next_);
    switch (angles_.rope.kind) {
      case Rope::Kind::kNone:
        return;
      case Rope::Kind::kLine:
        return turn_columns<kBack, true, kWide>({0, from.stride / 2}, {from, to, 0, count});
      case Rope::Kind::kGrid:
        return angles_.pairs % (2 * kWide) == 0 ? rotate_in_grid<kBack, kWide>(from, to, count)
                                                : rotate_in_grid<kBack, kNarrow>(from, to, count);
      case Rope::Kind::kTable:
        return rotate_by_table<kBack>(from, to, count);
    }
  }

  // Goes on to the tokens after those that were rotated.
  void advance(int64_t count) {
    token_ += count;
    if (rotates()) copy(next_, now_);
  }

  // Goes to any token, counted as in Tokens; quickly to one that is a block before the present.
  void move_to(int64_t token) {
    const int64_t steps = earlier_ + token - token_;
    token_ += steps;
    if (angles_.rope.kind == Rope::Kind::kLine && steps == -kBlock) return turn_back_block();
    if (steps != 0) set_angles();
  }

 private:
  // Rows are padded to the wide number of pairs; a grid's halves may only have the narrow one.
  static constexpr int kWide = kPad / 2, kNarrow = 2;

  struct Run {
    Rows<const T> from;
    Rows<T> to;
    int64_t begin, end;
  };

  void copy(const Phases& from, Phases& to) const {
    std::copy_n(from.cosine, angles_.pairs, to.cosine);
    std::copy_n(from.sine, angles_.pairs, to.sine);
  }

  void set_angles() {
    if (angles_.rope.kind == Rope::Kind::kTable) return;  // read token by token
    set_phases_of_token(angles_, token_, width_, now_);
  }

  void turn_back_block() {
    for (int64_t t = 0; t < angles_.pairs; ++t) {
      const double c = now_.cosine[t], s = now_.sine[t];
      now_.cosine[t] = c * angles_.turns->block_cos[t] + s * angles_.turns->block_sin[t];
      now_.sine[t] = s * angles_.turns->block_cos[t] - c * angles_.turns->block_sin[t];
    }
  }

  // Pairs of a run of tokens, up to kLanes pairs at once, from the angles in next_; kMoves if each
  // token has angles of its own, one step on from those of the token before.
  template <bool kBack, bool kMoves, int kLanes>
  HWY_INLINE void turn_columns(Pairs pairs, Run run) {
    const hn::CappedTag<double, kLanes> d64;
    for (int64_t t = pairs.begin; t < pairs.end; t += static_cast<int64_t>(hn::Lanes(d64))) {
      auto c = hn::LoadU(d64, next_.cosine + t), s = hn::LoadU(d64, next_.sine + t);
      const auto step_c = hn::LoadU(d64, angles_.turns->step_cos + t);
      const auto step_s = hn::LoadU(d64, angles_.turns->step_sin + t);
      for (int64_t i = run.begin; i < run.end; ++i) {
        turn_pairs<kBack>(d64, c, s, run.from.row(i) + 2 * t, run.to.row(i) + 2 * t);
        if (!kMoves) continue;
        const auto next_c = hn::NegMulAdd(s, step_s, hn::Mul(c, step_c));
        s = hn::MulAdd(c, step_s, hn::Mul(s, step_c));
        c = next_c;
      }
      hn::StoreU(c, d64, next_.cosine + t);
      hn::StoreU(s, d64, next_.sine + t);
    }
  }

  // Run by run, each within a row of the image.
  template <bool kBack, int kLanes>
  HWY_INLINE void rotate_in_grid(Rows<const T> from, Rows<T> to, int64_t count) {
    const int64_t half = angles_.pairs / 2;
    int64_t column = (angles_.rope.offset + token_) % width_;
    for (int64_t begin = 0; begin < count;) {
      const int64_t end = std::min(count, begin + width_ - column);
      turn_columns<kBack, false, kLanes>({0, half}, {from, to, begin, end});
      turn_columns<kBack, true, kLanes>({half, from.stride / 2}, {from, to, begin, end});
      column += end - begin;
      begin = end;
      if (column < width_) continue;
      column = 0;
      start_image_row();
    }
  }

  void start_image_row() {
    const int64_t half = angles_.pairs / 2;
    for (int64_t t = 0; t < half; ++t) {
      const double c = next_.cosine[t], s = next_.sine[t];
      next_.cosine[t] = c * angles_.turns->step_cos[t] - s * angles_.turns->step_sin[t];
      next_.sine[t] = s * angles_.turns->step_cos[t] + c * angles_.turns->step_sin[t];
    }
    std::fill_n(next_.cosine + half, half, 1.0);
    std::fill_n(next_.sine + half, half, 0.0);
  }

  template <bool kBack>
  void rotate_by_table(Rows<const T> from, Rows<T> to, int64_t count) {
    const Rope& rope = angles_.rope;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = (token_ + i) * rope.table_stride;
      std::copy_n(rope.cos + row, angles_.pairs, next_.cosine);
      std::copy_n(rope.sin + row, angles_.pairs, next_.sine);
      turn_columns<kBack, false, kWide>({0, from.stride / 2}, {from, to, i, i + 1});
    }
  }

  const RopeAngles& angles_;
  int64_t width_, earlier_, token_;
  Phases now_ = {}, next_;
};

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
