// Tiles of 64 tokens as floats in shared memory, and the products that the causal sweeps are made
// of. The lanes of a warp own rows and columns as in mma.cuh: rows g and g + 8 of 16, and of each
// block of 32 columns the eight from 8 t on.
#pragma once

#include "mala/kernels/cuda/mma.cuh"
#include "mala/kernels/cuda/task.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu {

constexpr int kTileEights = kTileTokens / 8;

// A block has four warps for the rows of a tile, as many times as heads have 64 columns: each warp
// has 16 rows of results and 64 of their columns.
template <int kDim>
struct SweepShape {
  static constexpr int kColumnWarps = kDim / 64, kWarps = 4 * kColumnWarps;
  static constexpr int kThreads = 32 * kWarps;
};

// Where this thread stands.
struct SweepLane {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int row_warp = threadIdx.x / 32 % 4, column_warp = threadIdx.x / 128;

  // Of the tile: the lane's first row.
  __device__ __forceinline__ int row() const { return 16 * row_warp + g; }
  // The first column of the warp's block of 32 of its 64, and the lane's eight in it.
  __device__ __forceinline__ int column(int block) const {
    return 64 * column_warp + kBlockCols * block + 8 * t;
  }
};

// What a product takes in, where it is not split into parts: rounded as tensor cores would not.
template <typename T>
__device__ __forceinline__ float as_operand(float x) {
  return kFine<T> ? x : float_of(to_tf32(x));
}
template <typename T>
__device__ __forceinline__ Eight as_operands(Eight x) {
#pragma unroll
  for (int i = 0; i < 8; ++i) x.x[i] = as_operand<T>(x.x[i]);
  return x;
}

// Rows of floats, two words further apart than they are long: the accesses below then meet few
// banks twice.
template <int kCols>
struct FloatTile {
  static constexpr int kStride = kCols + 2;
  float* data;

  static constexpr int bytes(int rows) { return rows * kStride * 4; }
  __device__ __forceinline__ float* at(int row, int column) const {
    return data + row * kStride + column;
  }
  __device__ __forceinline__ Eight eight(int row, int column) const {
    Eight e;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = *reinterpret_cast<const float2*>(at(row, column + 2 * i));
      e.x[2 * i] = two.x;
      e.x[2 * i + 1] = two.y;
    }
    return e;
  }
  __device__ __forceinline__ void set_eight(int row, int column, const Eight& e) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      *reinterpret_cast<float2*>(at(row, column + 2 * i)) = {e.x[2 * i], e.x[2 * i + 1]};
    }
  }
};

// Tokens of a tile in the order in which scores have them: of every eight, column 2 t is token t
// and column 2 t + 1 is token 4 + (t + 2) % 4. So the next product finds them in different banks.
__device__ __forceinline__ int token_of_column(int column) {
  const int t = column / 2;
  return column % 2 == 0 ? t : 4 + (t + 2) % 4;
}

// A matrix (D, E) of a head, which is multiplied from both sides. Its rows stand in an order in
// which the four lanes of a row find theirs side by side.
template <int kDim>
struct HeadMatrix {
  FloatTile<kDim> tile;

  static __device__ __forceinline__ int place(int row) {
    return row / kBlockCols * kBlockCols + row % 8 * 4 + row % kBlockCols / 8;
  }
};

// A matrix that is too large for shared memory, where a scan left it.
struct GlobalMatrix {
  const float* data;
  StateLayout layout;

  template <typename T>
  __device__ __forceinline__ float at(int row, int column) const {
    const bool exists = row < layout.dim && column < layout.value_dim;
    return exists ? as_operand<T>(data[row * layout.value_dim + column]) : 0.0f;
  }
};

// Calls body(n) for the eights of tokens in [first, end), and for others of the same half of the
// tile: fewer questions leave more products at work at once.
template <class Body>
__device__ __forceinline__ void for_each_half(int first, int end, Body body) {
#pragma unroll
  for (int half = 0; half < kTileEights; half += 4) {
    if (first >= half + 4 || end <= half) continue;
#pragma unroll
    for (int n = half; n < half + 4; ++n) body(n);
  }
}

// Of a warp's 16 rows with all rows of a tile: products of 32 columns after the other.
template <typename T>
struct Scores {
  float c[kTileEights][4] = {};

  // At least for the eights of tokens in [first, end).
  template <int kCols>
  __device__ __forceinline__ void add(const LeftBlock<T>& left, const FloatTile<kCols>& tokens,
                                      int block, int first, int end) {
    const SweepLane lane;
    const int token = token_of_column(lane.g);
    for_each_half(first, end, [&](int n) {
      const Eight b = tokens.eight(8 * n + token, kBlockCols * block + 8 * lane.t);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        multiply(c[n], left.slices[i], Parts<T>(b.x[2 * i], true), Parts<T>(b.x[2 * i + 1], true));
      }
    });
  }
  // Of the eight n: what belongs to the lane's row `half` and to its token `odd`.
  __device__ __forceinline__ float& at(int n, int half, int odd) { return c[n][2 * half + odd]; }
  __device__ __forceinline__ Left<T> left(int n) const {
    return Left<T>(c[n][0], c[n][2], c[n][1], c[n][3], false);
  }
};

// 16 rows by the warp's 64 columns of a result.
template <typename T>
struct SweepRows {
  float c[8][4] = {};

  // The column of a lane's number of the right side: lane t of the result has 8 t + 2 j and the
  // next of tile j.
  static __device__ __forceinline__ int right_column(const SweepLane& lane, int j) {
    return 64 * lane.column_warp + j / 4 * kBlockCols + lane.g / 2 * 8 + j % 4 * 2 + lane.g % 2;
  }

  // += a block of 32 columns of left rows by those rows of the matrix.
  template <int kDim>
  __device__ __forceinline__ void add(const LeftBlock<T>& left, const HeadMatrix<kDim>& right,
                                      int block) {
    const SweepLane lane;
    const int row = kBlockCols * block + lane.t;  // in its place: 8 t + i stands at 4 i + t
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float* from = right.tile.at(row, right_column(lane, j));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float upper = from[8 * i * FloatTile<kDim>::kStride];
        const float lower = from[(8 * i + 4) * FloatTile<kDim>::kStride];
        multiply(c[j], left.slices[i], Parts<T>(upper, true), Parts<T>(lower, true));
      }
    }
  }
  // += a block of 32 columns of left rows by those columns of the matrix, transposed.
  template <int kDim>
  __device__ __forceinline__ void add_transposed(const LeftBlock<T>& left,
                                                 const HeadMatrix<kDim>& right, int block) {
    const SweepLane lane;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int row = HeadMatrix<kDim>::place(right_column(lane, j));
      const Eight b = right.tile.eight(row, kBlockCols * block + 8 * lane.t);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        multiply(c[j], left.slices[i], Parts<T>(b.x[2 * i], true), Parts<T>(b.x[2 * i + 1], true));
      }
    }
  }
  template <int kDim = 0>
  __device__ __forceinline__ void add(const LeftBlock<T>& left, const GlobalMatrix& right,
                                      int block) {
    const SweepLane lane;
    const int row = kBlockCols * block + 8 * lane.t;
    add_elements(left, [&](int j, int i) { return right.at<T>(row + i, right_column(lane, j)); });
  }
  template <int kDim = 0>
  __device__ __forceinline__ void add_transposed(const LeftBlock<T>& left,
                                                 const GlobalMatrix& right, int block) {
    const SweepLane lane;
    const int column = kBlockCols * block + 8 * lane.t;
    add_elements(left,
                 [&](int j, int i) { return right.at<T>(right_column(lane, j), column + i); });
  }
  // += weights of tokens by their rows of a tile; those outside of [first, end) eights are zero.
  template <int kCols>
  __device__ __forceinline__ void add(const Scores<T>& weights, const FloatTile<kCols>& tokens,
                                      int first, int end) {
    const SweepLane lane;
    const int even = token_of_column(2 * lane.t), odd = token_of_column(2 * lane.t + 1);
    for_each_half(first, end, [&](int n) {
      const Left<T> left = weights.left(n);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = right_column(lane, j);
        multiply(c[j], left, Parts<T>(*tokens.at(8 * n + even, column), true),
                 Parts<T>(*tokens.at(8 * n + odd, column), true));
      }
    });
  }
  __device__ __forceinline__ void scale(const float (&by)[2]) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) c[j][i] *= by[i / 2];
    }
  }
  // The lane's eight of its row `half`, in block 0 or 1 of the warp's columns.
  __device__ __forceinline__ Eight eight(int half, int block) const {
    Eight e;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      e.x[2 * j] = c[4 * block + j][2 * half];
      e.x[2 * j + 1] = c[4 * block + j][2 * half + 1];
    }
    return e;
  }

 private:
  // right(j, i): the lane's number i of eight of the right side's tile j.
  template <class Value>
  __device__ __forceinline__ void add_elements(const LeftBlock<T>& left, Value right) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        multiply(c[j], left.slices[i], Parts<T>(right(j, 2 * i), true),
                 Parts<T>(right(j, 2 * i + 1), true));
      }
    }
  }
};

// Two neighbouring threads share a column of a tile, half of its rows each.
struct ColumnShare {
  static constexpr int kRows = kTileTokens / 2;
  int column = threadIdx.x / 2, first = threadIdx.x % 2 * kRows;
};

// The sums of the columns of a tile, each row by its weight where there are weights, are added to a
// vector.
template <int kCols>
__device__ __forceinline__ void sum_columns(const FloatTile<kCols>& tile, const float* weights,
                                            float* vector) {
  const ColumnShare share;
  float sums[4] = {};
#pragma unroll
  for (int row = 0; row < ColumnShare::kRows; ++row) {
    const float x = *tile.at(share.first + row, share.column);
    sums[row % 4] =
        weights ? fmaf(weights[share.first + row], x, sums[row % 4]) : sums[row % 4] + x;
  }
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  sum += __shfl_xor_sync(~0u, sum, 1);
  if (share.first == 0) vector[share.column] += sum;
}

// Each row of a tile becomes the sum of the rows up to it, or from it on where kForward is false,
// and of the vector, which becomes the sum of all.
template <bool kForward, int kCols>
__device__ __forceinline__ void sum_rows_up(const FloatTile<kCols>& tile, float* vector) {
  constexpr int kRows = ColumnShare::kRows;
  const ColumnShare share;
  const bool comes_first = (share.first == 0) == kForward;
  float sums[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) sums[row] = *tile.at(share.first + row, share.column);
#pragma unroll
  for (int i = 1; i < kRows; ++i) {
    const int row = kForward ? i : kRows - 1 - i;
    sums[row] += sums[kForward ? row - 1 : row + 1];
  }
  const float total = sums[kForward ? kRows - 1 : 0], others = __shfl_xor_sync(~0u, total, 1);
  const float start = vector[share.column], before = comes_first ? start : start + others;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    *tile.at(share.first + row, share.column) = before + sums[row];
  }
  __syncwarp();
  if (comes_first) vector[share.column] = start + (total + others);
}

template <class Kind>
__device__ __forceinline__ Spot spot_at(const Turning& by, int64_t position, int64_t width,
                                        bool exists) {
  return Walk<Kind::kHow>(by, position, width, 0).spot(by, exists);
}

// Tokens of a tile as they came, on their way while the tile before is worked on: of narrow types
// whose rows allow it. Others are read when they are needed.
template <typename T, int kDim>
struct RawRows {
  static constexpr bool kStages = sizeof(T) == 2 && kDim <= 128;
  static constexpr int kBytes = kStages ? kTileTokens * kDim * sizeof(T) : 0;

  Rows<const T> rows;
  Tile<T, kDim> tile;
  int cols;     // that the head has
  bool staged;  // asked for ahead

  // Each lane asks for what it has itself, of the columns of its warp.
  __device__ __forceinline__ void ask_for(int64_t first, int64_t end) const {
    if constexpr (kStages) {
      if (!staged) return;
      const SweepLane lane;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = lane.row() + 8 * half;
#pragma unroll
        for (int block = 0; block < 2; ++block) {
          const int column = lane.column(block);
          const bool wanted = first >= 0 && first + row < end && column < cols;
          const T* from = wanted ? rows.at(first + row, column) : rows.data;
          copy_async(shared_address(tile.unit(row, column / 8)), from, wanted);
        }
      }
    }
  }
  // Zeros where there is no such token or column.
  __device__ __forceinline__ Eight eight(int row, int64_t token, bool exists, int column) const {
    if constexpr (kStages) {
      if (staged) return load_eight(tile.unit(row, column / 8));
    }
    if (!exists || column >= cols) return {};
    return read_eight(row_of(rows, token, true), column);
  }
};

// Zeros where there is no such token or column.
template <typename T>
__device__ __forceinline__ Eight read_or_zero(const Rows<const T>& rows, int64_t token, bool exists,
                                              int column) {
  if (!exists || column >= rows.cols) return {};
  return read_eight(row_of(rows, token, true), column);
}

}  // namespace mala::gpu
