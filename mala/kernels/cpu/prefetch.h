// Fetches the next block of tokens while the present one is multiplied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mala/core/views.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/stored.h"

namespace mala::cpu {

// The lines of up to four tensors, a few at each step: asked for all at once they would fill the
// queue to memory, and the products would wait behind them.
class Prefetch {
 public:
  // `first` is the first token of the next block. Tensors whose rows are not contiguous are left
  // to the hardware.
  template <typename Void>
  void add(const Stored<Void>& view, int64_t first) {
    if (view.data == nullptr || view.col_stride != 1 || first >= view.rows) return;
    const int64_t bytes = bytes_of(view.dtype), stride = view.row_stride * bytes;
    streams_[count_++] = {static_cast<const char*>(view.data) + first * stride, stride,
                          std::min(kBlock, view.rows - first), view.cols * bytes};
  }

  MALA_INLINE void step() {
    for (int64_t lines = 0; lines < kLinesAtOnce && current_ < count_;) {
      Stream& stream = streams_[current_];
      for (int64_t j = 0; j < stream.bytes; j += kLine) __builtin_prefetch(stream.row + j);
      lines += stream.bytes / kLine + 1;
      stream.row += stream.stride;
      if (--stream.rows == 0) ++current_;
    }
  }

 private:
  static constexpr int64_t kLinesAtOnce = 16, kLine = 64;

  struct Stream {
    const char* row;
    int64_t stride, rows, bytes;
  };
  Stream streams_[4];
  int count_ = 0, current_ = 0;
};

}  // namespace mala::cpu
