// Whether strided tensors share memory: exact, so that slices of one packed buffer may be told
// from true overlaps.
#pragma once

#include <array>
#include <cstdint>

#include "mala/core/views.h"

namespace mala {

// Which bytes a tensor touches: elements of `bytes` bytes at address + sum_i index_i * stride_i.
struct Footprint {
  uintptr_t address = 0;
  int64_t bytes = 1;
  std::array<int64_t, 4> sizes{}, strides{};  // strides count elements
};

template <typename T>
Footprint footprint(const HeadsView<T>& view) {
  return {reinterpret_cast<uintptr_t>(view.data),
          sizeof(T),
          {view.batch, view.heads, view.tokens, view.dim},
          {view.batch_stride, view.head_stride, view.token_stride, view.dim_stride}};
}

// The bytes from a tensor's first element to its last; of a buffer, all.
struct ByteRange {
  uintptr_t begin = 0, end = 0;

  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

ByteRange byte_range(const Footprint& tensor);

// Whether two different indices may name the same element. Answers yes for layouts that are
// wilder than nested dimensions.
bool overlaps_itself(const Footprint& tensor);

// Whether two tensors of the same element size share an element. Answers yes where it cannot
// tell: addresses that are not whole elements apart, or strides that take too long to untangle.
bool overlap(const Footprint& a, const Footprint& b);

}  // namespace mala
