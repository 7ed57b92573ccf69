// Products on tensor cores that keep what float32 would: a number is one or two parts of a narrow
// type, bfloat16 for bfloat16 tensors, TF32 for float16 and float32.
//
// Lane (g, t), g = lane / 4, t = lane % 4, of a warp owns rows g and g + 8 of 16, and of each block
// of 32 columns the eight from 8 t on, of every left side and of every result. That is not how the
// instructions number columns, but sums do not mind their order: the right side is laid out so that
// it fits. Nothing has to be moved between lanes, and rows are read and written in whole eights.
#pragma once

#include "mala/kernels/cuda/tile.cuh"

namespace mala::gpu {

__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t to_tf32(float x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}

// The part of x that its first, rounded part leaves.
__device__ __forceinline__ uint32_t tf32_rest(float x, uint32_t first) {
  return to_tf32(x - __uint_as_float(first));
}

// Four 8x8 matrices of 16-bit numbers, transposed; each lane gives the address of one row.
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
}

// A block of 32 columns of the left side: rows g and g + 8.
template <typename T>
struct Left {
  float x[4][4];

  Left() = default;
  __device__ __forceinline__ Left(const Eight& upper, const Eight& lower) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      x[s][0] = upper.x[2 * s];
      x[s][1] = lower.x[2 * s];
      x[s][2] = upper.x[2 * s + 1];
      x[s][3] = lower.x[2 * s + 1];
    }
  }
};

template <>
struct Left<BFloat16> {
  uint32_t x[2][4];

  Left() = default;
  __device__ __forceinline__ Left(uint4 upper, uint4 lower)
      : x{{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}} {}
  __device__ __forceinline__ Left(const Eight& upper, const Eight& lower)
      : Left(pack<BFloat16>(upper), pack<BFloat16>(lower)) {}
};

// What eight numbers leave when they are rounded to bfloat16.
__device__ __forceinline__ Eight rest_of(const Eight& e) {
  Eight rest = e;
  add_scaled(rest, -1.0f, unpack<BFloat16>(pack<BFloat16>(e)));
  return rest;
}

// Rows g and g + 8 of a tile as they are.
template <typename T, int kCols>
__device__ __forceinline__ Left<T> left_of(const LaneTile<T, kCols>& tile, int block) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {tile.raw(0, block), tile.raw(1, block)};
  } else {
    return {tile.eight(0, block), tile.eight(1, block)};
  }
}

// A matrix (kDim, kDim) as the right side, in the order in which lanes need it: of each block of 32
// rows and each tile of 8 columns, the eight numbers of every lane side by side.
template <int kDim>
struct RightOrder {
  static constexpr int kTiles = kDim / 8;

  static __device__ __forceinline__ int index(int row_block, int tile, int lane) {
    return ((row_block * kTiles + tile) * 32 + lane) * 8;
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
};

template <typename T, int kDim>
struct Right {
  static constexpr int kBytes = kDim * kDim * 4;
  float* data;

  __device__ __forceinline__ explicit Right(void* memory) : data(static_cast<float*>(memory)) {}
  __device__ __forceinline__ void set(int at, const Eight& x) const {
    store_eight<float>(data + at, x);
  }
  // c += left * the tile of 8 columns, over a block of 32 rows.
  __device__ __forceinline__ void multiply(float (&c)[4], const Left<T>& left, int row_block,
                                           int tile, int lane) const {
    const Eight w = load_eight<float>(data + RightOrder<kDim>::index(row_block, tile, lane));
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      uint32_t a[4], rest[4], b[2], b_rest[2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i] = to_tf32(left.x[s][i]);
        rest[i] = tf32_rest(left.x[s][i], a[i]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        b[i] = to_tf32(w.x[2 * s + i]);
        b_rest[i] = tf32_rest(w.x[2 * s + i], b[i]);
      }
      mma_tf32(c, rest, b[0], b[1]);
      mma_tf32(c, a, b_rest[0], b_rest[1]);
      mma_tf32(c, a, b[0], b[1]);
    }
  }
};

template <int kDim>
struct Right<BFloat16, kDim> {
  static constexpr int kBytes = kDim * kDim * 4;
  BFloat16 *first, *rest;

  __device__ __forceinline__ explicit Right(void* memory)
      : first(static_cast<BFloat16*>(memory)), rest(first + kDim * kDim) {}
  __device__ __forceinline__ void set(int at, const Eight& x) const {
    store_eight(first + at, x);
    store_eight(rest + at, rest_of(x));
  }
  __device__ __forceinline__ void multiply(float (&c)[4], const Left<BFloat16>& left, int row_block,
                                           int tile, int lane) const {
    const int at = RightOrder<kDim>::index(row_block, tile, lane);
    const uint4 a = *reinterpret_cast<const uint4*>(first + at);
    const uint4 b = *reinterpret_cast<const uint4*>(rest + at);
    mma_bf16(c, left.x[0], a.x, a.y);
    mma_bf16(c, left.x[1], a.z, a.w);
    mma_bf16(c, left.x[0], b.x, b.y);
    mma_bf16(c, left.x[1], b.z, b.w);
  }
  // For what a rounded left side leaves: the first parts are enough.
  __device__ __forceinline__ void multiply_rest(float (&c)[4], const Left<BFloat16>& left,
                                                int row_block, int tile, int lane) const {
    const uint4 a =
        *reinterpret_cast<const uint4*>(first + RightOrder<kDim>::index(row_block, tile, lane));
    mma_bf16(c, left.x[0], a.x, a.y);
    mma_bf16(c, left.x[1], a.z, a.w);
  }
};

// Fills a right side by all threads of the block: value(row, column).
template <typename T, int kDim, class Value>
__device__ __forceinline__ void fill_right(const Right<T, kDim>& right, Value value) {
  using Order = RightOrder<kDim>;
  const int lane = threadIdx.x % 32;
  for (int i = threadIdx.x / 32; i < kDim / kBlockCols * Order::kTiles; i += blockDim.x / 32) {
    const int row_block = i / Order::kTiles, tile = i % Order::kTiles;
    const int row = Order::row(row_block, lane), column = Order::column(tile, lane);
    Eight x;
#pragma unroll
    for (int j = 0; j < 8; ++j) x.x[j] = value(row + j, column);
    right.set(Order::index(row_block, tile, lane), x);
  }
}

// A block of 32 columns of a result: tile j has columns 8 t + 2 j and the next of rows g and g + 8.
struct Product {
  float c[4][4] = {};

  __device__ __forceinline__ Eight upper() const {
    return {{c[0][0], c[0][1], c[1][0], c[1][1], c[2][0], c[2][1], c[3][0], c[3][1]}};
  }
  __device__ __forceinline__ Eight lower() const {
    return {{c[0][2], c[0][3], c[1][2], c[1][3], c[2][2], c[2][3], c[3][2], c[3][3]}};
  }
};

}  // namespace mala::gpu
