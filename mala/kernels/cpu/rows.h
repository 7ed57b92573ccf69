// Some tokens, each a row of whole vectors.
#pragma once

#include <cstdint>

#include "mala/core/views.h"

namespace mala::cpu {

template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  MALA_INLINE T* row(int64_t i) const { return data + i * stride; }
};

template <typename T>
MALA_INLINE Rows<const T> read_only(Rows<T> rows) {
  return {rows.data, rows.stride};
}

}  // namespace mala::cpu
