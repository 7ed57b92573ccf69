// Small sums over rows: dot products, weighted sums of rows, and sums that outgrow a float.
#if defined(MALA_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_ROWS_INL_H_
#undef MALA_CPU_ROWS_INL_H_
#else
#define MALA_CPU_ROWS_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/kernels/cpu/matmul-inl.h"
#include "mala/kernels/cpu/stage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_INLINE T dot(const T* a, const T* b, int64_t count) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < count; j += static_cast<int64_t>(hn::Lanes(d))) {
    sum = hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, b + j), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Of the first `count` numbers of a row of kBlock; the others are not looked at.
template <typename T>
HWY_INLINE T sum_first(const T* row, int64_t count) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < count; j += static_cast<int64_t>(hn::Lanes(d))) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(count - j));
    sum = hn::Add(sum, hn::IfThenElseZero(mask, hn::LoadU(d, row + j)));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// sum = add(sum, row i, i) over the rows, for kVectors vectors: as many chains of additions run
// side by side, because one alone would wait for its own last result.
template <int kVectors, typename T, class Add>
HWY_INLINE void fold_columns(Rows<const T> rows, int64_t count, T* sum, Add add) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> totals[kVectors];
  HWY_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) totals[j] = hn::LoadU(d, sum + j * lanes);
  for (int64_t i = 0; i < count; ++i) {
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) {
      totals[j] = add(totals[j], hn::LoadU(d, rows.row(i) + j * lanes), i);
    }
  }
  HWY_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) hn::StoreU(totals[j], d, sum + j * lanes);
}

template <typename T, class Add>
HWY_INLINE void fold_rows(Rows<const T> rows, Extent size, T* sum, Add add) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t j = 0;
  for (; j + 4 * lanes <= size.columns; j += 4 * lanes) {
    fold_columns<4>(Rows<const T>{rows.data + j, rows.stride}, size.rows, sum + j, add);
  }
  for (; j < size.columns; j += lanes) {
    fold_columns<1>(Rows<const T>{rows.data + j, rows.stride}, size.rows, sum + j, add);
  }
}

// sum += the rows.
template <typename T>
HWY_INLINE void add_rows(Rows<const T> rows, Extent size, T* sum) {
  fold_rows(rows, size, sum,
            [](auto total, auto row, int64_t) HWY_ATTR { return hn::Add(total, row); });
}

// sum += the rows, each times its weight.
template <typename T>
HWY_INLINE void add_weighted_rows(Rows<const T> rows, Extent size, const T* weights, T* sum) {
  const hn::ScalableTag<T> d;
  fold_rows(rows, size, sum, [=](auto total, auto row, int64_t i) HWY_ATTR {
    return hn::MulAdd(hn::Set(d, weights[i]), row, total);
  });
}

template <typename T>
HWY_INLINE void scale_rows(const T* weights, Extent size, Rows<T> rows) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < size.rows; ++i) {
    const auto weight = hn::Set(d, weights[i]);
    for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(hn::Mul(hn::LoadU(d, rows.row(i) + j), weight), d, rows.row(i) + j);
    }
  }
}

// rows += weights (x) vector.
template <typename T>
HWY_INLINE void add_outer(const T* weights, const T* vector, Extent size, Rows<T> rows) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < size.rows; ++i) {
    const auto weight = hn::Set(d, weights[i]);
    for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
      T* at = rows.row(i) + j;
      hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, vector + j), hn::LoadU(d, at)), d, at);
    }
  }
}

// The sums of a span: in T within a group of tokens, in double from group to group. So a million
// tokens lose no more digits than a thousand.
template <typename T>
class GroupedSums {
 public:
  GroupedSums(T* group, double* sums, int64_t size) : group_(group), sums_(sums), size_(size) {
    std::fill_n(group_, size_, T(0));
    std::fill_n(sums_, size_, 0.0);
  }

  // To be called after each block; `last` after the span's last one. Whether all is now in the sums
  // in double.
  bool end_block(int64_t count, bool last) {
    tokens_ += count;
    if (tokens_ < kGroup && !last) return false;
    for (int64_t i = 0; i < size_; ++i) sums_[i] += static_cast<double>(group_[i]);
    std::fill_n(group_, size_, T(0));
    tokens_ = 0;
    return true;
  }

 private:
  T* group_;
  double* sums_;
  int64_t size_, tokens_ = 0;
};

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
