// Small transposes, for tensors whose tokens lie side by side (channels-first images).
#if defined(MALA_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_TRANSPOSE_INL_H_
#undef MALA_CPU_TRANSPOSE_INL_H_
#else
#define MALA_CPU_TRANSPOSE_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/core/views.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// to(i, j) = from(j, i) for four rows and columns, each row of four contiguous.
HWY_INLINE void transpose_4x4(const float* from, int64_t from_stride, float* to,
                              int64_t to_stride) {
  const hn::FixedTag<float, 4> d;
  const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + from_stride);
  const auto r2 = hn::LoadU(d, from + 2 * from_stride), r3 = hn::LoadU(d, from + 3 * from_stride);
  const auto low01 = hn::InterleaveLower(d, r0, r1), high01 = hn::InterleaveUpper(d, r0, r1);
  const auto low23 = hn::InterleaveLower(d, r2, r3), high23 = hn::InterleaveUpper(d, r2, r3);
  hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, to);
  hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, to + to_stride);
  hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, to + 2 * to_stride);
  hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, to + 3 * to_stride);
}
#endif

// to(i, j) = from(i, j), where `from` has contiguous columns and `to` contiguous rows, or the
// other way round: four by four as far as that goes.
template <typename T>
HWY_INLINE void copy_transposed(MatrixView<const T> from, MatrixView<T> to) {
  int64_t whole_rows = 0, whole_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  const bool contiguous =
      (from.row_stride == 1 && to.col_stride == 1) || (from.col_stride == 1 && to.row_stride == 1);
  if constexpr (sizeof(T) == 4) {
    if (contiguous) {
      whole_rows = from.rows / 4 * 4;
      whole_cols = from.cols / 4 * 4;
    }
    const int64_t from_stride = from.row_stride * from.col_stride;
    const int64_t to_stride = to.row_stride * to.col_stride;
    for (int64_t j = 0; j < whole_cols; j += 4) {
      for (int64_t i = 0; i < whole_rows; i += 4) {
        transpose_4x4(&from.at(i, j), from_stride, &to.at(i, j), to_stride);
      }
    }
  }
#endif
  for (int64_t i = 0; i < from.rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < from.cols; ++j) {
      to.at(i, j) = from.at(i, j);
    }
  }
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
