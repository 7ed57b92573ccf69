// Views of memory that somebody else owns: pointers with sizes and strides, passed by value.
#pragma once

#include <cstdint>

// For members that kernels call: never emitted out of line, and usable in device code.
#if defined(__CUDACC__)
#define MALA_INLINE __host__ __device__ __forceinline__
#else
#define MALA_INLINE [[gnu::always_inline]] inline
#endif

namespace mala {

// (rows, cols). Strides count elements and may be anything, also between columns: a
// channels-first image is a matrix of tokens whose row stride is 1.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0, col_stride = 1;

  MALA_INLINE T* row(int64_t i) const { return data + i * row_stride; }
  MALA_INLINE T& at(int64_t i, int64_t j) const { return data[i * row_stride + j * col_stride]; }
};

// (batch, heads, tokens, dim): one matrix per head.
template <typename T>
struct HeadsView {
  T* data = nullptr;
  int64_t batch = 0, heads = 0, tokens = 0, dim = 0;
  int64_t batch_stride = 0, head_stride = 0, token_stride = 0, dim_stride = 1;

  MALA_INLINE MatrixView<T> head(int64_t b, int64_t h) const {
    return {data + b * batch_stride + h * head_stride, tokens, dim, token_stride, dim_stride};
  }

  // The same elements, read-only.
  operator HeadsView<const T>() const {
    return {data, batch, heads, tokens, dim, batch_stride, head_stride, token_stride, dim_stride};
  }
};

// A dense (B, H, N, D) tensor, dim fastest.
template <typename T>
HeadsView<T> dense_heads(T* data, int64_t batch, int64_t heads, int64_t tokens, int64_t dim) {
  return {data, batch, heads, tokens, dim, heads * tokens * dim, tokens * dim, dim, 1};
}

}  // namespace mala
