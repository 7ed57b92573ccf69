// Fetches the next block of tokens while the present one is multiplied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mala/core/views.h"
#include "mala/kernels/cpu/layout.h"

namespace mala::cpu {

// The lines of up to three tensors, a few at each step: asked for all at once they would fill the
// queue to memory, and the products would wait behind them.
template <typename T>
class Prefetch {
 public:
  // `first` is the first token of the next block. Tensors whose rows are not contiguous are left
  // to the hardware.
  void add(const MatrixView<const T>& view, int64_t first) {
    if (view.data == nullptr || view.col_stride != 1 || first >= view.rows) return;
    streams_[count_++] = {view.row(first), view.row_stride, std::min(kBlock, view.rows - first),
                          view.cols};
  }

  MALA_INLINE void step() {
    for (int line = 0; line < kLinesAtOnce && current_ < count_; ++line) {
      Stream& stream = streams_[current_];
      __builtin_prefetch(stream.row + column_);
      column_ += kLine;
      if (column_ < stream.cols) continue;
      column_ = 0;
      stream.row += stream.stride;
      if (--stream.rows == 0) ++current_;
    }
  }

 private:
  static constexpr int kLinesAtOnce = 16;
  static constexpr int64_t kLine = 64 / sizeof(T);

  struct Stream {
    const T* row;
    int64_t stride, rows, cols;
  };
  Stream streams_[3];
  int count_ = 0, current_ = 0;
  int64_t column_ = 0;
};

}  // namespace mala::cpu
