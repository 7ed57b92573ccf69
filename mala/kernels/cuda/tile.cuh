// Tiles of tokens in shared memory, and how rows get there and back.
#pragma once

#include "mala/core/views.h"
#include "mala/kernels/cuda/eight.cuh"

namespace mala::gpu {

constexpr int kWarpTokens = 16;  // rows of a tile that belong to one warp

// (tokens, kCols). Rows are made of units of 16 bytes whose places are swapped from row to row, so
// that eight rows of one unit, or four units of two rows, lie in different banks.
template <typename T, int kCols>
struct Tile {
  static constexpr int kPerUnit = 16 / sizeof(T), kUnits = kCols / kPerUnit;
  static_assert(kUnits % 4 == 0);

  T* data;

  static __device__ __forceinline__ int swapped(int row, int unit) {
    const int swap = (row >> 1) & 3;
    return unit ^ (kUnits % 8 == 0 ? swap | (row & 1) << 2 : swap);
  }
  __device__ __forceinline__ T* unit(int row, int index) const {
    return data + (row * kUnits + swapped(row, index)) * kPerUnit;
  }
  __device__ __forceinline__ float at(int row, int column) const {
    return widen(unit(row, column / kPerUnit)[column % kPerUnit]);
  }
  // `column` is a multiple of 8.
  __device__ __forceinline__ Eight eight(int row, int column) const {
    if constexpr (sizeof(T) == 2) {
      return load_eight(unit(row, column / 8));
    } else {
      const float4 a = *reinterpret_cast<const float4*>(unit(row, column / 4));
      const float4 b = *reinterpret_cast<const float4*>(unit(row, column / 4 + 1));
      return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    }
  }
  __device__ __forceinline__ void set_eight(int row, int column, const Eight& e) const {
    if constexpr (sizeof(T) == 2) {
      store_eight(unit(row, column / 8), e);
    } else {
      *reinterpret_cast<float4*>(unit(row, column / 4)) = {e.x[0], e.x[1], e.x[2], e.x[3]};
      *reinterpret_cast<float4*>(unit(row, column / 4 + 1)) = {e.x[4], e.x[5], e.x[6], e.x[7]};
    }
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

constexpr int kBlockCols = 32;

// Of rows g and g + 8 of a warp's 16 the eights that belong to this lane (g, t): one of each block
// of 32 columns, from 8 t on. Lanes only meet their own pieces, at addresses that are known once
// and for all but for constants.
template <typename T, int kCols>
struct LaneTile {
  static constexpr int kBlocks = kCols / kBlockCols;

  Tile<T, kCols> tile;

  __device__ __forceinline__ explicit LaneTile(const Tile<T, kCols>& of) : tile(of) {}
  __device__ __forceinline__ LaneTile moved(int bytes) const {
    return LaneTile({reinterpret_cast<T*>(reinterpret_cast<std::byte*>(tile.data) + bytes)});
  }
  __device__ __forceinline__ Eight eight(int half, int block) const {
    return tile.eight(row(half), column(block));
  }
  __device__ __forceinline__ void set_eight(int half, int block, const Eight& e) const {
    tile.set_eight(row(half), column(block), e);
  }
  // The places of an eight, of 16 bytes each.
  static constexpr int kUnitsOfEight = 8 * sizeof(T) / 16;
  __device__ __forceinline__ uint32_t unit_address(int half, int block, int unit) const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(
        tile.unit(row(half), column(block) / Tile<T, kCols>::kPerUnit + unit)));
  }

 private:
  static __device__ __forceinline__ int row(int half) {
    return threadIdx.x / 32 * kWarpTokens + threadIdx.x % 32 / 4 + 8 * half;
  }
  static __device__ __forceinline__ int column(int block) {
    return block * kBlockCols + threadIdx.x % 4 * 8;
  }
};

__device__ __forceinline__ uint4 load_shared(uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from));
  return x;
}
__device__ __forceinline__ void store_shared(uint32_t to, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}

// In bfloat16 an eight is one unit. Its block's parity decides on which side of the swap it lies.
template <int kCols>
struct LaneTile<BFloat16, kCols> {
  static constexpr int kBlocks = kCols / kBlockCols, kRowBytes = kCols * 2, kUnitsOfEight = 1;

  uint32_t even, odd;  // addresses of blocks 0 and 1 of row g

  __device__ __forceinline__ explicit LaneTile(const Tile<BFloat16, kCols>& of) {
    const int row = threadIdx.x / 32 * kWarpTokens + threadIdx.x % 32 / 4, unit = threadIdx.x % 4;
    even = static_cast<uint32_t>(__cvta_generic_to_shared(of.unit(row, unit)));
    odd = kBlocks == 1 ? even
                       : static_cast<uint32_t>(__cvta_generic_to_shared(of.unit(row, unit + 4)));
  }
  __device__ __forceinline__ LaneTile moved(int bytes) const {
    LaneTile other = *this;
    other.even += bytes;
    other.odd += bytes;
    return other;
  }
  __device__ __forceinline__ uint32_t unit_address(int half, int block, int = 0) const {
    return (block % 2 == 0 ? even : odd) + block / 2 * 128 + half * 8 * kRowBytes;
  }
  __device__ __forceinline__ uint4 raw(int half, int block) const {
    return load_shared(unit_address(half, block));
  }
  __device__ __forceinline__ void set_raw(int half, int block, uint4 x) const {
    store_shared(unit_address(half, block), x);
  }
  __device__ __forceinline__ Eight eight(int half, int block) const {
    return unpack<BFloat16>(raw(half, block));
  }
  __device__ __forceinline__ void set_eight(int half, int block, const Eight& e) const {
    set_raw(half, block, pack<BFloat16>(e));
  }
};

// Copies this lane's pieces of tile after tile of a part's tokens. What does not exist becomes zero
// and is not read.
template <typename T>
class Stager {
 public:
  // The lane's first row is token `first`; others follow `step` tokens apart.
  __device__ __forceinline__ Stager(const Rows<const T>& from, int64_t first, int64_t end, int step,
                                    int first_column = 0)
      : stride_(from.dim_stride),
        next_(from.at(first + lane_row(), 0) + first_column * from.dim_stride),
        left_(end - first - lane_row()),
        half_step_(8 * from.token_stride),
        step_(step),
        cols_(from.cols - first_column - threadIdx.x % 4 * 8),
        vectors_(from.vectors) {}

  template <int kCols>
  __device__ __forceinline__ void stage(const LaneTile<T, kCols>& to) {
    using To = LaneTile<T, kCols>;
    constexpr int kPerUnit = 16 / sizeof(T);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T* row = next_ + half * half_step_;
      const bool exists = left_ > 8 * half;
      if (vectors_) {
        row += threadIdx.x % 4 * 8;
#pragma unroll
        for (int block = 0; block < To::kBlocks; ++block) {
          const bool wanted = exists && block * kBlockCols < cols_;
#pragma unroll
          for (int unit = 0; unit < To::kUnitsOfEight; ++unit) {
            copy_async(to.unit_address(half, block, unit),
                       row + block * kBlockCols + unit * kPerUnit, wanted);
          }
        }
      } else {
        stage_elements(to, half, row, exists);
      }
    }
    next_ += step_ / 8 * half_step_;
    left_ -= step_;
  }

 private:
  static __device__ __forceinline__ int lane_row() {
    return threadIdx.x / 32 * kWarpTokens + threadIdx.x % 32 / 4;
  }
  template <int kCols>
  __device__ __noinline__ void stage_elements(LaneTile<T, kCols> to, int half, const T* row,
                                              bool exists) const {
    using To = LaneTile<T, kCols>;
    constexpr int kPerUnit = 16 / sizeof(T);
#pragma unroll 1
    for (int i = 0; i < To::kBlocks * To::kUnitsOfEight; ++i) {
      const int block = i / To::kUnitsOfEight, unit = i % To::kUnitsOfEight;
      const int column = block * kBlockCols + threadIdx.x % 4 * 8 + unit * kPerUnit;
      alignas(16) T some[kPerUnit] = {};
      if (exists && block * kBlockCols < cols_) {
#pragma unroll
        for (int j = 0; j < kPerUnit; ++j) some[j] = row[(column + j) * stride_];
      }
      store_shared(to.unit_address(half, block, unit), *reinterpret_cast<const uint4*>(some));
    }
  }

  int64_t stride_;
  const T* next_;
  int64_t left_, half_step_;
  int step_, cols_;  // columns from the lane's first on
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
