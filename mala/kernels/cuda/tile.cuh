// Tiles of tokens in shared memory, and how rows get there and back.
#pragma once

#include "mala/core/views.h"
#include "mala/kernels/cuda/eight.cuh"

namespace mala::gpu {

// (tokens, kCols). Rows are made of units of 16 bytes whose places are swapped from row to row, so
// that four units of two rows that follow each other, or two units of four, lie in different banks.
template <typename T, int kCols>
struct Tile {
  static constexpr int kPerUnit = 16 / sizeof(T), kUnits = kCols / kPerUnit;
  static_assert(kUnits % 4 == 0);

  T* data;

  static __device__ __forceinline__ int swapped(int row, int unit) {
    const int swap = (row & 2) | ((row >> 2) & 1);
    return unit ^ (kUnits % 8 == 0 ? swap | (row & 1) << 2 : swap);
  }
  __device__ __forceinline__ T* unit(int row, int index) const {
    return data + (row * kUnits + swapped(row, index)) * kPerUnit;
  }
  // `column` is a multiple of 4.
  __device__ __forceinline__ T* four(int row, int column) const {
    return unit(row, column / kPerUnit) + column % kPerUnit;
  }
};

// The tokens of one sequence and head. Its rows may have any strides.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t token_stride = 0, dim_stride = 1;
  int cols = 0;
  bool vectors = false;  // 16-byte accesses are possible

  __device__ __forceinline__ T* at(int64_t token, int column) const {
    return data + token * token_stride + column * dim_stride;
  }
};

template <typename T>
__device__ __forceinline__ Rows<T> rows_of(const HeadsView<T>& view, int64_t batch, int64_t head,
                                           int64_t first, bool vectors) {
  if (!view.data) return {};
  const MatrixView<T> matrix = view.head(batch, head);
  return {matrix.row(first), matrix.row_stride, matrix.col_stride, static_cast<int>(matrix.cols),
          vectors};
}

__device__ __forceinline__ void copy_async(uint32_t to, const void* global, bool wanted) {
  const int bytes = wanted ? 16 : 0;  // the rest becomes zero
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
__device__ __forceinline__ uint4 load_shared(uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from));
  return x;
}
__device__ __forceinline__ uint32_t load_shared_one(uint32_t from) {
  uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from));
  return x;
}
__device__ __forceinline__ float load_shared_float(uint32_t from) {
  return float_of(load_shared_one(from));
}
__device__ __forceinline__ float2 load_shared_two(uint32_t from) {
  float2 two;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(two.x), "=f"(two.y) : "r"(from));
  return two;
}
__device__ __forceinline__ void store_shared(uint32_t to, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}
__device__ __forceinline__ void store_shared_float(uint32_t to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}
__device__ __forceinline__ void store_shared_two(uint32_t to, float2 two) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(to), "f"(two.x), "f"(two.y) : "memory");
}

template <typename U>
__device__ __forceinline__ Four load_shared_four(uint32_t from) {
  uint32_t a, b;
  asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(from));
  return {{low_of<U>(a), high_of<U>(a), low_of<U>(b), high_of<U>(b)}};
}
template <>
__device__ __forceinline__ Four load_shared_four<float>(uint32_t from) {
  const uint4 x = load_shared(from);
  return {{float_of(x.x), float_of(x.y), float_of(x.z), float_of(x.w)}};
}

constexpr int kBlockCols = 32;

// Of a warp's 16 * kRowTiles rows the eights that belong to this lane (g, t): rows g + 8 p, piece p
// after piece, and of each block of 32 columns those from 8 t on. The units of an eight lie at
// addresses that are known once and for all but for constants: those of even blocks, and of odd.
template <typename T, int kCols, int kRowTiles>
struct LaneTile {
  static constexpr int kBlocks = kCols / kBlockCols, kPieces = 2 * kRowTiles;
  static constexpr int kRowBytes = kCols * sizeof(T), kUnitsOfEight = 8 * sizeof(T) / 16;
  static constexpr int kBlockBytes = kBlockCols * sizeof(T);

  uint32_t even[kUnitsOfEight], odd[kUnitsOfEight];

  __device__ __forceinline__ explicit LaneTile(const Tile<T, kCols>& of) {
    const int first = threadIdx.x % 4 * kUnitsOfEight;
#pragma unroll
    for (int unit = 0; unit < kUnitsOfEight; ++unit) {
      even[unit] = shared_address(of.unit(row(), first + unit));
      odd[unit] =
          shared_address(of.unit(row(), first + unit + 4 * kUnitsOfEight % Tile<T, kCols>::kUnits));
    }
  }
  // The row of piece 0.
  static __device__ __forceinline__ int row() {
    return threadIdx.x / 32 * 16 * kRowTiles + threadIdx.x % 32 / 4;
  }
  __device__ __forceinline__ LaneTile moved(int bytes) const {
    LaneTile other = *this;
#pragma unroll
    for (int unit = 0; unit < kUnitsOfEight; ++unit) {
      other.even[unit] += bytes;
      other.odd[unit] += bytes;
    }
    return other;
  }
  __device__ __forceinline__ uint32_t unit_address(int piece, int block, int unit) const {
    return (block % 2 == 0 ? even[unit] : odd[unit]) + block / 2 * 2 * kBlockBytes +
           piece * 8 * kRowBytes;
  }
  __device__ __forceinline__ Eight eight(int piece, int block) const {
    const uint4 a = load_shared(unit_address(piece, block, 0));
    if constexpr (sizeof(T) == 2) {
      return unpack<T>(a);
    } else {
      const uint4 b = load_shared(unit_address(piece, block, 1));
      return {{float_of(a.x), float_of(a.y), float_of(a.z), float_of(a.w), float_of(b.x),
               float_of(b.y), float_of(b.z), float_of(b.w)}};
    }
  }
  // The lower or the upper half of an eight.
  __device__ __forceinline__ Four four(int piece, int block, int part) const {
    if constexpr (sizeof(T) == 2) {
      return load_shared_four<T>(unit_address(piece, block, 0) + 8 * part);
    } else {
      return load_shared_four<T>(part == 0 ? unit_address(piece, block, 0)
                                           : unit_address(piece, block, 1));
    }
  }
  __device__ __forceinline__ void set_eight(int piece, int block, const Eight& e) const {
    if constexpr (sizeof(T) == 2) {
      store_shared(unit_address(piece, block, 0), pack<T>(e));
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        store_shared(unit_address(piece, block, i),
                     {bits_of(e.x[4 * i]), bits_of(e.x[4 * i + 1]), bits_of(e.x[4 * i + 2]),
                      bits_of(e.x[4 * i + 3])});
      }
    }
  }
};

// Element by element, `cols` columns from the lane's first on. Not a member of the class below,
// whose objects would have to be in memory to be handed over.
template <typename T, int kCols, int kRowTiles>
__device__ __noinline__ void stage_elements(LaneTile<T, kCols, kRowTiles> to, int piece,
                                            const T* row, int64_t stride, int cols) {
  using To = LaneTile<T, kCols, kRowTiles>;
  constexpr int kPerUnit = 16 / sizeof(T);
#pragma unroll
  for (int unit = 0; unit < To::kUnitsOfEight; ++unit) {
#pragma unroll 1
    for (int block = 0; block < To::kBlocks; ++block) {
      const int column = block * kBlockCols + threadIdx.x % 4 * 8 + unit * kPerUnit;
      alignas(16) T some[kPerUnit] = {};
      if (block * kBlockCols < cols) {
#pragma unroll
        for (int j = 0; j < kPerUnit; ++j) some[j] = row[(column + j) * stride];
      }
      store_shared(to.unit_address(piece, block, unit), *reinterpret_cast<const uint4*>(some));
    }
  }
}

// Copies this lane's pieces of tile after tile of a part's tokens, kStep tokens apart. What does
// not exist becomes zero and is not read.
template <typename T, int kStep>
class Stager {
 public:
  // Row `row` of the first tile is this lane's first.
  __device__ __forceinline__ Stager(const Rows<const T>& from, int64_t first, int64_t end, int row,
                                    int first_column = 0)
      : next_(from.at(first + row, first_column)),
        token_stride_(from.token_stride),
        dim_stride_(from.dim_stride),
        left_(static_cast<int>(min(end - first, int64_t{1} << 30)) - row),
        cols_(from.cols - first_column - threadIdx.x % 4 * 8),
        vectors_(from.vectors) {}

  template <int kCols, int kRowTiles>
  __device__ __forceinline__ void stage(const LaneTile<T, kCols, kRowTiles>& to) {
    using To = LaneTile<T, kCols, kRowTiles>;
    constexpr int kPerUnit = 16 / sizeof(T);
#pragma unroll
    for (int piece = 0; piece < To::kPieces; ++piece) {
      const T* row = next_ + piece * 8 * token_stride_;
      const bool exists = left_ > 8 * piece;
      if (vectors_) {
        row += threadIdx.x % 4 * 8;
#pragma unroll
        for (int block = 0; block < To::kBlocks; ++block) {
          const bool wanted = exists && block * kBlockCols < cols_;
#pragma unroll
          for (int unit = 0; unit < To::kUnitsOfEight; ++unit) {
            copy_async(to.unit_address(piece, block, unit),
                       row + block * kBlockCols + unit * kPerUnit, wanted);
          }
        }
      } else {
        stage_elements(to, piece, row, dim_stride_, exists ? cols_ : 0);
      }
    }
    next_ += kStep * token_stride_;
    left_ -= kStep;
  }

 private:
  const T* next_;
  int64_t token_stride_, dim_stride_;
  int left_, cols_;  // tokens, and columns from the lane's first on
  bool vectors_;
};

template <typename T>
__device__ __noinline__ Eight read_elements(const T* from, int64_t stride) {
  Eight e;
#pragma unroll
  for (int i = 0; i < 8; ++i) e.x[i] = widen(from[i * stride]);
  return e;
}
template <typename T>
__device__ __noinline__ void write_elements(T* to, int64_t stride, Eight e) {
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i * stride] = narrow<T>(e.x[i]);
}

// One token's row, for the lanes that read or write pieces of it.
template <typename T>
struct Row {
  T* data = nullptr;  // null where there is none
  int64_t dim_stride = 1;
  int cols = 0;
  bool vectors = false;
};

template <typename T>
__device__ __forceinline__ Row<T> row_of(const Rows<T>& rows, int64_t token, bool exists) {
  return {exists && rows.data ? rows.at(token, 0) : nullptr, rows.dim_stride, rows.cols,
          rows.vectors};
}

template <typename T>
__device__ __forceinline__ Eight read_eight(const Row<const T>& from, int column) {
  if (from.vectors) return load_eight(from.data + column);
  return read_elements(from.data + column * from.dim_stride, from.dim_stride);
}

template <typename T>
__device__ __forceinline__ void write_eight(const Row<T>& to, int column, const Eight& e) {
  if (!to.data || column >= to.cols) return;
  if (to.vectors) return store_eight(to.data + column, e);
  write_elements(to.data + column * to.dim_stride, to.dim_stride, e);
}

}  // namespace mala::gpu
