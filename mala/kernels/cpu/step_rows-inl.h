// The features of one token's heads, a few heads at a time.
#if defined(MALA_CPU_STEP_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_STEP_ROWS_INL_H_
#undef MALA_CPU_STEP_ROWS_INL_H_
#else
#define MALA_CPU_STEP_ROWS_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/convert-inl.h"
#include "mala/kernels/cpu/stage-inl.h"
#include "mala/kernels/cpu/turn-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A head's features before and after rotation. Without RoPE they are the same.
struct StepRow {
  const double *plain, *rotated;
};

// phi of one row is a chain of operations that wait for each other, and its memory may be far away;
// several rows at once wait for both together.
template <typename T>
class StepRows {
 public:
  // `x` has `heads` rows, one for each head.
  StepRows(const Tokens& tokens, const Members<const void>& x, int64_t heads,
           const TokenTurn<T>& turn)
      : tokens_(tokens), x_(x), heads_(heads), width_(padded(x.first.cols)), turn_(turn) {}

  // To be asked for head after head; what came before is then gone.
  HWY_INLINE StepRow row(int64_t head) {
    if (head >= end_) load(head);
    const int64_t at = (head - first_) * width_;
    return {plain_ + at, (turn_.turns() ? rotated_ : plain_) + at};
  }

 private:
  static constexpr int64_t kRows = 8;

  void load(int64_t head) {
    first_ = head;
    end_ = std::min(head + kRows, heads_);
    const int64_t count = end_ - first_;
    Tokens rows = tokens_;
    rows.x = x_.of(head);
    rows.x.rows = count;
    rows.x.row_stride = x_.stride;
    const Rows<T> features = stage_features(rows, {0, count}, tile_);
    copy_as_double(features.data, count * width_, plain_);
    if (!turn_.turns()) return;
    for (int64_t i = 0; i < count; ++i) turn_.apply(features.row(i), width_);
    copy_as_double(features.data, count * width_, rotated_);
  }

  Tokens tokens_;
  Members<const void> x_;
  int64_t heads_, width_;
  const TokenTurn<T>& turn_;
  int64_t first_ = 0, end_ = 0;
  alignas(64) double plain_[kRows * kMostPad];
  alignas(64) double rotated_[kRows * kMostPad];
  alignas(64) T tile_[kRows * kMostPad];
};

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
