// The one matrix product: a tile of the result stays in registers while the sum runs.
#if defined(MALA_CPU_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_MATMUL_INL_H_
#undef MALA_CPU_MATMUL_INL_H_
#else
#define MALA_CPU_MATMUL_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a register tile. With up to three vectors a row, 24 of AVX-512's and NEON's 32
// registers hold sums, or 12 of the 16 that other sets have; the rest hold operands.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int64_t kTileRows = 8;
#else
constexpr int64_t kTileRows = 4;
#endif
static_assert(kBlock % kTileRows == 0);

// The left operand: element (row, k) of a row-major matrix, or of the transpose of one.
template <typename T>
struct Plain {
  const T* data;
  int64_t stride;
  HWY_INLINE T at(int64_t row, int64_t k) const { return data[row * stride + k]; }
  HWY_INLINE Plain below(int64_t row) const { return {data + row * stride, stride}; }
};

template <typename T>
struct Transposed {
  const T* data;
  int64_t stride;
  HWY_INLINE T at(int64_t row, int64_t k) const { return data[k * stride + row]; }
  HWY_INLINE Transposed below(int64_t row) const { return {data + row, stride}; }
};

// The right operand: `depth` rows of whole vectors.
template <typename T>
struct Right {
  const T* data;
  int64_t stride;
};

struct Extent {
  int64_t rows, columns, depth;
};

// Which part of the depth the rows of a tile need: all of it, or what a triangular left operand
// has on its side of the diagonal. What lies on the other side is never read: it may be NaN.
struct WholeDepth {
  static constexpr bool kTriangular = false;
  static HWY_INLINE int64_t begin(int64_t) { return 0; }
  static HWY_INLINE int64_t end(int64_t, int64_t depth) { return depth; }
};

// Row i has 0 to i.
struct UpToDiagonal {
  static constexpr bool kTriangular = true;
  static HWY_INLINE int64_t begin(int64_t) { return 0; }
  static HWY_INLINE int64_t end(int64_t row, int64_t depth) { return row < depth ? row : depth; }
  static HWY_INLINE bool has(int64_t row, int64_t k) { return k <= row; }
};

// Row i has i and all beyond.
struct FromDiagonal {
  static constexpr bool kTriangular = true;
  static HWY_INLINE int64_t begin(int64_t row) { return row + kTileRows; }
  static HWY_INLINE int64_t end(int64_t, int64_t depth) { return depth; }
  static HWY_INLINE bool has(int64_t row, int64_t k) { return k >= row; }
};

// left * right, tile by tile. start(row, column) gives the first value of each vector of the
// result, finish(row, column, vector) takes the last, and `meanwhile` is told after each tile.
// Rows are rounded up to whole tiles, so `left` must be readable up to there; columns are whole
// vectors.
template <typename T, class Depth, class Left, class Start, class Finish>
struct Product {
  using D = hn::ScalableTag<T>;

  Left left;
  Right<T> right;
  Extent size;
  Start start;
  Finish finish;
  Prefetch& meanwhile;

  HWY_INLINE void run() const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    for (int64_t column = 0; column < size.columns;) {
      // Threes and twos, and a lone vector only where there is but one.
      const int64_t rest = (size.columns - column) / lanes;
      const int64_t vectors = rest % 3 == 0 ? 3 : rest == 1 ? 1 : 2;
      if (vectors == 3) column_of_tiles<3>(column);
      if (vectors == 2) column_of_tiles<2>(column);
      if (vectors == 1) column_of_tiles<1>(column);
      column += vectors * lanes;
    }
  }

 private:
  template <int kVectors>
  HWY_INLINE void column_of_tiles(int64_t column) const {
    for (int64_t row = 0; row < size.rows; row += kTileRows) tile<kVectors>(row, column);
  }

  template <int kVectors>
  HWY_INLINE void tile(int64_t row, int64_t column) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    hn::Vec<D> sums[kTileRows][kVectors];
    HWY_UNROLL(8)
    for (int64_t r = 0; r < kTileRows; ++r) {
      HWY_UNROLL(3)
      for (int j = 0; j < kVectors; ++j) sums[r][j] = start(row + r, column + j * lanes);
    }
    add_products<kVectors>(row, right.data + column, sums);
    HWY_UNROLL(8)
    for (int64_t r = 0; r < kTileRows; ++r) {
      HWY_UNROLL(3)
      for (int j = 0; j < kVectors; ++j) finish(row + r, column + j * lanes, sums[r][j]);
    }
    meanwhile.step();
  }

  template <int kVectors>
  HWY_INLINE void add_products(int64_t row, const T* HWY_RESTRICT columns,
                               hn::Vec<D> (&sums)[kTileRows][kVectors]) const {
    const Left rows = left.below(row);
    const int64_t end = Depth::end(row, size.depth);
    for (int64_t k = Depth::begin(row); k < end; ++k) {
      add_outer_product<kVectors>(rows, k, columns, sums, [](int64_t) { return true; });
    }
    if constexpr (Depth::kTriangular) {
      for (int64_t k = row; k < row + kTileRows && k < size.depth; ++k) {
        add_outer_product<kVectors>(rows, k, columns, sums,
                                    [=](int64_t r) { return Depth::has(row + r, k); });
      }
    }
  }

  // The rows r of the tile for which has(r).
  template <int kVectors, class Has>
  HWY_INLINE void add_outer_product(Left rows, int64_t k, const T* HWY_RESTRICT columns,
                                    hn::Vec<D> (&sums)[kTileRows][kVectors], Has has) const {
    const D d;
    const size_t lanes = hn::Lanes(d);
    hn::Vec<D> y[kVectors];
    HWY_UNROLL(3)
    for (int j = 0; j < kVectors; ++j) y[j] = hn::LoadU(d, columns + k * right.stride + j * lanes);
    HWY_UNROLL(8)
    for (int64_t r = 0; r < kTileRows; ++r) {
      if (!has(r)) continue;
      const auto x = hn::Set(d, rows.at(r, k));
      HWY_UNROLL(3)
      for (int j = 0; j < kVectors; ++j) sums[r][j] = hn::MulAdd(x, y[j], sums[r][j]);
    }
  }
};

// sums (rows, columns) += left * right.
template <typename T, class Depth = WholeDepth, class Left>
HWY_INLINE void accumulate_product(Left left, Right<T> right, Extent size, T* sums,
                                   Prefetch& meanwhile) {
  const hn::ScalableTag<T> d;
  const auto load = [=](int64_t row, int64_t column)
                        HWY_ATTR { return hn::LoadU(d, sums + row * size.columns + column); };
  const auto store = [=](int64_t row, int64_t column, hn::Vec<decltype(d)> sum)
                         HWY_ATTR { hn::StoreU(sum, d, sums + row * size.columns + column); };
  Product<T, Depth, Left, decltype(load), decltype(store)>{left, right, size,
                                                           load, store, meanwhile}
      .run();
}

// finish(row, column, vector) for each vector of left * right.
template <typename T, class Left, class Finish>
HWY_INLINE void compute_product(Left left, Right<T> right, Extent size, Finish finish,
                                Prefetch& meanwhile) {
  const hn::ScalableTag<T> d;
  const auto zero = [=](int64_t, int64_t) HWY_ATTR { return hn::Zero(d); };
  Product<T, WholeDepth, Left, decltype(zero), Finish>{left, right, size, zero, finish, meanwhile}
      .run();
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
