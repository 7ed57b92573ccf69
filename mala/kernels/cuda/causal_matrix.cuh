// The matrix of a head that runs along with a causal sweep.
#pragma once

#include "mala/kernels/cuda/causal_tile.cuh"

namespace mala::gpu {

// A warp's share of a head's matrix: some of its kDim / 64 times 16 rows, by the warp's 64 columns.
// What tiles add to it stays in registers in full; products read a copy in shared memory.
template <typename T, int kDim, int kHeld = kDim / 64>
struct RunningMatrix {
  float c[kHeld][8][4] = {};
  int first = 0;  // of the row tiles held

  __device__ __forceinline__ void load(const float* matrix, const StateLayout& layout) {
    const SweepLane lane;
    for_each([&](int m, int j, int half) {
      const int from = row(lane, m, half), column = lane.column(j / 4) + j % 4 * 2;
      const bool exists = from < layout.dim && column < layout.value_dim;
      const float* at = matrix + from * layout.value_dim + column;
      c[m][j][2 * half] = exists ? at[0] : 0.0f;
      c[m][j][2 * half + 1] = exists ? at[1] : 0.0f;
    });
  }
  // As products take it in.
  __device__ __forceinline__ void store(const HeadMatrix<kDim>& to) const {
    const SweepLane lane;
    for_each([&](int m, int j, int half) {
      const int place = HeadMatrix<kDim>::place(row(lane, m, half));
      *reinterpret_cast<float2*>(to.tile.at(place, lane.column(j / 4) + j % 4 * 2)) = {
          as_operand<T>(c[m][j][2 * half]), as_operand<T>(c[m][j][2 * half + 1])};
    });
  }
  __device__ __forceinline__ void write(float* matrix, const StateLayout& layout) const {
    const SweepLane lane;
    for_each([&](int m, int j, int half) {
      const int to = row(lane, m, half), column = lane.column(j / 4) + j % 4 * 2;
      if (to >= layout.dim || column >= layout.value_dim) return;
      float* at = matrix + to * layout.value_dim + column;
      at[0] = c[m][j][2 * half];
      at[1] = c[m][j][2 * half + 1];
    });
  }
  // to[row] += factor * (the matrix's row . vector), of the warp's rows and columns. Where several
  // warps share rows, they take turns.
  __device__ __forceinline__ void add_dots(const float* vector, float factor, float* to) const {
    const SweepLane lane;
    for (int warp = 0; warp < kDim / 64; ++warp) {
#pragma unroll
      for (int m = 0; m < kHeld; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float sum = 0.0f;
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const float* with = vector + lane.column(j / 4) + j % 4 * 2;
            sum = fmaf(c[m][j][2 * half], with[0], fmaf(c[m][j][2 * half + 1], with[1], sum));
          }
          sum = row_sum(sum);
          if (lane.column_warp == warp && lane.t == 0) to[row(lane, m, half)] += factor * sum;
        }
      }
      __syncthreads();
    }
  }
  // += the sum of left (x) right over the tokens of a tile, each by its weight where there are
  // weights.
  __device__ __forceinline__ void add(const FloatTile<kDim>& left, const FloatTile<kDim>& right,
                                      const float* weights = nullptr) {
    const SweepLane lane;
#pragma unroll 2
    for (int n = 0; n < kTileEights; ++n) {
      const int token = 8 * n + lane.t;
      const float upper = weights ? weights[token] : 1.0f,
                  lower = weights ? weights[token + 4] : 1.0f;
#pragma unroll
      for (int m = 0; m < kHeld; ++m) {
        const int one = row(lane, m, 0), other = row(lane, m, 1);
        const Left<T> a(upper * *left.at(token, one), upper * *left.at(token, other),
                        lower * *left.at(token + 4, one), lower * *left.at(token + 4, other),
                        weights == nullptr);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int column = SweepRows<T>::right_column(lane, j);
          multiply(c[m][j], a, Parts<T>(*right.at(token, column), true),
                   Parts<T>(*right.at(token + 4, column), true));
        }
      }
    }
  }

 private:
  // The matrix's row of the lane's row `half` of row tile m: its 16 rows are every second pair of a
  // block of 32, so that lanes find them in different banks.
  __device__ __forceinline__ int row(const SweepLane& lane, int m, int half) const {
    const int sixteen = lane.row_warp * (kDim / 64) + first + m;
    return sixteen / 2 * kBlockCols + lane.g % 4 * 8 + lane.g / 4 + 2 * half + sixteen % 2 * 4;
  }

  template <class Body>
  static __device__ __forceinline__ void for_each(Body body) {
#pragma unroll
    for (int m = 0; m < kHeld; ++m) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) body(m, j, half);
      }
    }
  }
};

}  // namespace mala::gpu
