// Products on tensor cores that lose nothing that would show in a tensor's type. Numbers enter them
// as TF32, which holds bfloat16 exactly and rounds features to 11 bits; for finer types they enter
// in two parts, of which three products are summed.
//
// Lane (g, t), g = lane / 4, t = lane % 4, of a warp owns rows g and g + 8 of 16, and of each block
// of 32 columns the eight from 8 t on, of every left side and of every result. That is not how the
// instructions number columns, but sums do not mind their order: the right side is laid out so that
// it fits. Nothing has to be moved between lanes, and rows are read and written in whole eights.
#pragma once

#include "mala/kernels/cuda/shape.h"
#include "mala/kernels/cuda/tile.cuh"

namespace mala::gpu {

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rounded, where tensor cores by themselves would cut off. The older instruction has more steps.
__device__ __forceinline__ uint32_t to_tf32(float x) {
  uint32_t y;
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
#endif
  return y;
}

// A number in the parts that its type needs.
template <typename T>
struct Parts {
  uint32_t first, rest;

  __device__ __forceinline__ Parts(float x, bool) : first(to_tf32(x)) {
    rest = to_tf32(x - float_of(first));
  }
  __device__ __forceinline__ float value() const { return float_of(first) + float_of(rest); }
};
template <>
struct Parts<BFloat16> {
  uint32_t first;

  // `exact` says that it needs no rounding.
  __device__ __forceinline__ Parts(float x, bool exact) : first(exact ? bits_of(x) : to_tf32(x)) {}
  __device__ __forceinline__ float value() const { return float_of(first); }
};

// Four of them, rounded.
template <typename T>
struct FourParts {
  Parts<T> x[4];

  __device__ __forceinline__ explicit FourParts(const Four& a)
      : x{{a.x[0], false}, {a.x[1], false}, {a.x[2], false}, {a.x[3], false}} {}
};

// 16 rows by 8 columns of a left side, or of several.
template <typename T>
struct Left {
  static constexpr int kParts = kFine<T> ? 2 : 1;
  uint32_t part[kParts][4];

  Left() = default;
  // (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
  __device__ __forceinline__ Left(float a, float b, float c, float d, bool exact) {
    const float x[4] = {a, b, c, d};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Parts<T> parts(x[i], exact);
      part[0][i] = parts.first;
      if constexpr (kParts == 2) part[1][i] = parts.rest;
    }
  }
};

// c += left * right, of which this lane has (t, g) and (t + 4, g). Tensor cores cut sums off where
// float32 rounds, which shows where nothing is rounded afterwards: in float32 they sum these
// products alone, and the result is added properly.
template <typename T>
__device__ __forceinline__ void multiply(float (&c)[4], const Left<T>& left, const Parts<T>& upper,
                                         const Parts<T>& lower) {
  constexpr bool kApart = std::is_same_v<T, float>;
  float step[4] = {};
  auto& to = kApart ? step : c;
  if constexpr (kFine<T>) {
    mma(to, left.part[1], upper.first, lower.first);
    mma(to, left.part[0], upper.rest, lower.rest);
  }
  mma(to, left.part[0], upper.first, lower.first);
#pragma unroll
  for (int i = 0; kApart && i < 4; ++i) c[i] += step[i];
}

// Half of a block of 32 columns of 16 rows: the lower or the upper fours of its eights.
template <typename T>
struct LeftStrip {
  Left<T> slices[2];

  LeftStrip() = default;
  __device__ __forceinline__ LeftStrip(const Four& a, const Four& b, bool exact)
      : slices{{a.x[0], b.x[0], a.x[1], b.x[1], exact}, {a.x[2], b.x[2], a.x[3], b.x[3], exact}} {}
};

// A block of 32 columns of 16 rows, of which this lane has an eight of rows g and g + 8.
template <typename T>
struct LeftBlock {
  Left<T> slices[4];

  LeftBlock() = default;
  __device__ __forceinline__ LeftBlock(const Eight& a, const Eight& b, bool exact)
      : slices{{a.x[0], b.x[0], a.x[1], b.x[1], exact},
               {a.x[2], b.x[2], a.x[3], b.x[3], exact},
               {a.x[4], b.x[4], a.x[5], b.x[5], exact},
               {a.x[6], b.x[6], a.x[7], b.x[7], exact}} {}
};

// A matrix (kDim, kDim) as the right side, in the order in which lanes need it: of each block of 32
// rows and each tile of 8 columns, eight numbers of every lane, the first four of all lanes and
// then the others. For bfloat16 they are rounded already.
template <typename T, int kDim>
struct Right {
  static constexpr int kBytes = kDim * kDim * 4, kTiles = kDim / 8;
  float* data;

  __device__ __forceinline__ explicit Right(void* memory) : data(static_cast<float*>(memory)) {}

  static __device__ __forceinline__ int index(int row_block, int tile, int lane) {
    return ((row_block * kTiles + tile) * 64 + lane) * 4;
  }
  // The first row of a lane's eight, and their column: lane t of a result has columns 8 t + 2 j and
  // 8 t + 2 j + 1 of tile j.
  static __device__ __forceinline__ int row(int row_block, int lane) {
    return row_block * kBlockCols + lane % 4 * 8;
  }
  static __device__ __forceinline__ int column(int tile, int lane) {
    const int g = lane / 4;
    return tile / 4 * kBlockCols + g / 2 * 8 + tile % 4 * 2 + g % 2;
  }

  __device__ __forceinline__ void set(int row_block, int tile, int lane, Eight x) const {
    if constexpr (!kFine<T>) {
#pragma unroll
      for (int i = 0; i < 8; ++i) x.x[i] = float_of(to_tf32(x.x[i]));
    }
    float* at = data + index(row_block, tile, lane);
    *reinterpret_cast<float4*>(at) = {x.x[0], x.x[1], x.x[2], x.x[3]};
    *reinterpret_cast<float4*>(at + 128) = {x.x[4], x.x[5], x.x[6], x.x[7]};
  }
  // The first four of a lane's eight, or the others.
  __device__ __forceinline__ Four four(int row_block, int tile, int part) const {
    return load_four(data + index(row_block, tile, threadIdx.x % 32) + 128 * part);
  }
};

// Fills a right side by all threads of the block: value(row, column).
template <typename T, int kDim, class Value>
__device__ __forceinline__ void fill_right(const Right<T, kDim>& right, Value value) {
  using To = Right<T, kDim>;
  const int lane = threadIdx.x % 32;
  for (int i = threadIdx.x / 32; i < kDim / kBlockCols * To::kTiles; i += blockDim.x / 32) {
    const int row_block = i / To::kTiles, tile = i % To::kTiles;
    const int row = To::row(row_block, lane), column = To::column(tile, lane);
    Eight x;
#pragma unroll
    for (int j = 0; j < 8; ++j) x.x[j] = value(row + j, column);
    right.set(row_block, tile, lane, x);
  }
}

// All columns of 16 * kRowTiles rows of a result.
template <int kDim, int kRowTiles>
struct Product {
  float c[kDim / 8][kRowTiles][4] = {};

  // += a block of the left side by its rows of the right side.
  template <typename T>
  __device__ __forceinline__ void add(const LeftBlock<T> (&left)[kRowTiles],
                                      const Right<T, kDim>& right, int row_block) {
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile) {
#pragma unroll
      for (int s = 0; s < 4; s += 2) {
        const Four b = right.four(row_block, tile, s / 2);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          add_two(c[tile][m], left[m].slices[s], left[m].slices[s + 1], b);
        }
      }
    }
  }
  template <typename T>
  __device__ __forceinline__ void add(const LeftStrip<T> (&left)[kRowTiles],
                                      const Right<T, kDim>& right, int row_block, int part) {
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile) {
      const Four b = right.four(row_block, tile, part);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        add_two(c[tile][m], left[m].slices[0], left[m].slices[1], b);
      }
    }
  }
  // Of row g + 8 * piece.
  __device__ __forceinline__ Eight eight(int piece, int block) const {
    const int m = piece / 2, at = piece % 2 * 2;
    Eight e;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      e.x[2 * j] = c[4 * block + j][m][at];
      e.x[2 * j + 1] = c[4 * block + j][m][at + 1];
    }
    return e;
  }

 private:
  template <typename T>
  static __device__ __forceinline__ void add_two(float (&to)[4], const Left<T>& a, const Left<T>& b,
                                                 const Four& right) {
    multiply(to, a, Parts<T>(right.x[0], true), Parts<T>(right.x[1], true));
    multiply(to, b, Parts<T>(right.x[2], true), Parts<T>(right.x[3], true));
  }
};

}  // namespace mala::gpu
