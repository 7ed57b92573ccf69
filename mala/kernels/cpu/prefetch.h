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
    for (int64_t lines = 0; lines < kLinesAtOnce && current_ < count_;) {
      Stream& stream = streams_[current_];
      for (int64_t j = 0; j < stream.cols; j += kLine) __builtin_prefetch(stream.row + j);
      lines += stream.cols / kLine + 1;
      stream.row += stream.stride;
      if (--stream.rows == 0) ++current_;
    }
  }

 private:
  static constexpr int64_t kLinesAtOnce = 16;
  static constexpr int64_t kLine = 64 / sizeof(T);

  struct Stream {
    const T* row;
    int64_t stride, rows, cols;
  };
  Stream streams_[3];
  int count_ = 0, current_ = 0;
};

}  // namespace mala::cpu
