// A matrix in memory, whose elements may be narrower than those of the arithmetic.
#pragma once

#include "mala/core/dtypes.h"
#include "mala/core/views.h"

namespace mala::cpu {

// One pass serves float, bfloat16 and float16: it asks for the type a block at a time. `Void` is
// void, or const void for what is only read.
template <typename Void>
struct Stored {
  Void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0, col_stride = 1;  // in elements

  Stored() = default;

  template <typename T>
  Stored(const MatrixView<T>& view)  // NOLINT: meant to be implicit
      : data(view.data),
        dtype(dtype_of<T>()),
        rows(view.rows),
        cols(view.cols),
        row_stride(view.row_stride),
        col_stride(view.col_stride) {}

  // From row `first` on; T must be the dtype's.
  template <typename T>
  MatrixView<T> as(int64_t first, int64_t count) const {
    return {static_cast<T*>(data) + first * row_stride, count, cols, row_stride, col_stride};
  }
};

using Input = Stored<const void>;
using Output = Stored<void>;

}  // namespace mala::cpu
