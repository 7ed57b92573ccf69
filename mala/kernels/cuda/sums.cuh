// Sums over the tokens of a tile: features (x) values as matrix products, spread over the warps of
// a block, and the vectors that belong to a state.
#pragma once

#include "mala/kernels/cuda/mma.cuh"
#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {

// The features of a tile, on the way into a sum: in two parts of bfloat16, or whole floats.
template <typename T, int kDim, int kTokens>
struct FeatureTile {
  static constexpr int kBytes = kTokens * kDim * 4;
  Tile<float, kDim> whole;
  LaneTile<float, kDim> lane;

  __device__ __forceinline__ explicit FeatureTile(void* memory)
      : whole{static_cast<float*>(memory)}, lane(whole) {}
  __device__ __forceinline__ void set_eight(int half, int block, const Eight& e) const {
    lane.set_eight(half, block, e);
  }
  __device__ __forceinline__ Eight eight(int half, int block) const {
    return lane.eight(half, block);
  }
};

template <int kDim, int kTokens>
struct FeatureTile<BFloat16, kDim, kTokens> {
  static constexpr int kBytes = kTokens * kDim * 4, kRest = kTokens * kDim * 2;
  Tile<BFloat16, kDim> first;
  LaneTile<BFloat16, kDim> lane;

  __device__ __forceinline__ explicit FeatureTile(void* memory)
      : first{static_cast<BFloat16*>(memory)}, lane(first) {}
  __device__ __forceinline__ void set_eight(int half, int block, const Eight& e) const {
    lane.set_eight(half, block, e);
    lane.moved(kRest).set_eight(half, block, rest_of(e));
  }
  __device__ __forceinline__ Eight eight(int half, int block) const {
    Eight e = lane.eight(half, block);
    add_scaled(e, 1.0f, lane.moved(kRest).eight(half, block));
    return e;
  }
};

// What one warp holds of a block's sums: kM tiles of 16 features by kN tiles of 8 values. Warps
// with the same features share the sums of these, warps with the same values those of the values.
template <typename T, int kDim>
struct Sums {
  using S = Shape<kDim>;
  static constexpr int kM = kDim / S::kRowWarps / 16, kN = S::kChunk / S::kColumnWarps / 8;
  static constexpr int kMShare = kM / S::kColumnWarps, kNShare = kN / S::kRowWarps;
  static_assert(kN % 2 == 0 && kM % S::kColumnWarps == 0 && kN % S::kRowWarps == 0);

  float products[kM][kN][4] = {};
  float features[kMShare][4] = {};  // in every column
  float values[kNShare][4] = {};    // by weight: in rows 0 and 1, to be added

  static __device__ __forceinline__ int row_warp() { return threadIdx.x / 32 % S::kRowWarps; }
  static __device__ __forceinline__ int column_warp() { return threadIdx.x / 32 / S::kRowWarps; }
  static __device__ __forceinline__ int first_row() { return row_warp() * kM * 16; }
  static __device__ __forceinline__ int first_column() { return column_warp() * kN * 8; }
  static __device__ __forceinline__ bool sums_features(int m) {
    return m / kMShare == column_warp();
  }
  static __device__ __forceinline__ bool sums_values(int n) { return n / kNShare == row_warp(); }

  __device__ __forceinline__ void add(const Sums& other) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) add4(products[m][n], other.products[m][n]);
    }
#pragma unroll
    for (int m = 0; m < kMShare; ++m) add4(features[m], other.features[m]);
#pragma unroll
    for (int n = 0; n < kNShare; ++n) add4(values[n], other.values[n]);
  }

 private:
  static __device__ __forceinline__ void add4(float (&to)[4], const float (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] += x[i];
  }
};

// The weights of the values of a tile: all one, or those in shared memory, in two parts of the
// narrow type. They are the first two rows of a left side.
struct OneWeights {
  static constexpr bool kSumsFeatures = true;
  int tokens;  // those of the tile that exist: the features of others do not count

  __device__ __forceinline__ uint32_t two_features(int token) const {
    return (token < tokens ? 0x3F80u : 0u) | (token + 1 < tokens ? 0x3F800000u : 0u);
  }
  __device__ __forceinline__ uint32_t one_feature(int token) const {
    return token < tokens ? __float_as_uint(1.0f) : 0u;
  }
  __device__ __forceinline__ uint32_t two(int, int g) const { return g == 0 ? 0x3F803F80u : 0u; }
  __device__ __forceinline__ uint32_t one(int, int g) const {
    return g == 0 ? __float_as_uint(1.0f) : 0u;
  }
};
struct TokenWeights {
  static constexpr bool kSumsFeatures = false;
  __device__ __forceinline__ uint32_t two_features(int) const { return 0; }
  __device__ __forceinline__ uint32_t one_feature(int) const { return 0; }
  const float* weights;

  __device__ __forceinline__ uint32_t two(int token, int g) const {
    if (g > 1) return 0;
    const float2 w = *reinterpret_cast<const float2*>(weights + token);
    const uint32_t first = pack<BFloat16>(w.x, w.y);
    return g == 0 ? first
                  : pack<BFloat16>(w.x - low_of<BFloat16>(first), w.y - high_of<BFloat16>(first));
  }
  __device__ __forceinline__ uint32_t one(int token, int g) const {
    if (g > 1) return 0;
    const uint32_t first = to_tf32(weights[token]);
    return g == 0 ? first : tf32_rest(weights[token], first);
  }
};

// Where a lane's rows of the 8x8 matrices begin, of the first 16 tokens of a tile: of each tile of
// features, and of each pair of tiles of values from column `column` on.
template <int kDim>
struct SumAddresses {
  using Sums = Sums<BFloat16, kDim>;
  uint32_t features[Sums::kM], values[Sums::kN / 2];

  template <int kCols>
  __device__ __forceinline__ SumAddresses(const Tile<BFloat16, kDim>& of_features,
                                          const Tile<BFloat16, kCols>& of_values, int column) {
    const int lane = threadIdx.x % 32, matrix = lane / 8, row = lane % 8;
#pragma unroll
    for (int m = 0; m < Sums::kM; ++m) {
      const int unit = Sums::first_row() / 8 + 2 * m + matrix % 2;
      features[m] = static_cast<uint32_t>(
          __cvta_generic_to_shared(of_features.unit(matrix / 2 * 8 + row, unit)));
    }
#pragma unroll
    for (int n = 0; n < Sums::kN / 2; ++n) {
      const int unit = (column + Sums::first_column()) / 8 + 2 * n + matrix / 2;
      values[n] = static_cast<uint32_t>(
          __cvta_generic_to_shared(of_values.unit(matrix % 2 * 8 + row, unit)));
    }
  }
};

// sums += features^T values over 16 tokens, in bfloat16.
template <int kDim, int kTokens, int kCols, class Weights>
__device__ __forceinline__ void accumulate_step(Sums<BFloat16, kDim>& sums,
                                                const SumAddresses<kDim>& from,
                                                const Weights& weights, int token) {
  using Sums = Sums<BFloat16, kDim>;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t b[Sums::kN / 2][4];
#pragma unroll
  for (int n = 0; n < Sums::kN / 2; ++n) load_transposed(b[n], from.values[n] + token * kCols * 2);
  const uint32_t ones[2] = {weights.two_features(token + 2 * t),
                            weights.two_features(token + 8 + 2 * t)};
#pragma unroll
  for (int m = 0; m < Sums::kM; ++m) {
    uint32_t a[4], rest[4];
    load_transposed(a, from.features[m] + token * kDim * 2);
    load_transposed(rest, from.features[m] + (kTokens + token) * kDim * 2);
#pragma unroll
    for (int n = 0; n < Sums::kN; ++n) {
      mma_bf16(sums.products[m][n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
      mma_bf16(sums.products[m][n], rest, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
    if (Weights::kSumsFeatures && Sums::sums_features(m)) {
      mma_bf16(sums.features[m % Sums::kMShare], a, ones[0], ones[1]);
      mma_bf16(sums.features[m % Sums::kMShare], rest, ones[0], ones[1]);
    }
  }
  const uint32_t w[4] = {weights.two(token + 2 * t, g), 0, weights.two(token + 8 + 2 * t, g), 0};
#pragma unroll
  for (int n = 0; n < Sums::kN; ++n) {
    if (Sums::sums_values(n)) {
      mma_bf16(sums.values[n % Sums::kNShare], w, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
}

// The same in TF32; float32 values have two parts as well.
template <typename T, int kDim, int kTokens, int kCols, class Weights>
__device__ __forceinline__ void accumulate_step(Sums<T, kDim>& sums,
                                                const FeatureTile<T, kDim, kTokens>& features,
                                                const Tile<T, kCols>& values, int column,
                                                const Weights& weights, int first_token) {
  using Sums = Sums<T, kDim>;
  constexpr bool kExact = std::is_same_v<T, float>;  // others are exact in one part
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll 1
  for (int token = first_token; token < first_token + 16; token += 8) {
    uint32_t b[Sums::kN][2], b_rest[Sums::kN][2];
#pragma unroll
    for (int n = 0; n < Sums::kN; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float x = values.at(token + t + 4 * i, column + Sums::first_column() + 8 * n + g);
        b[n][i] = to_tf32(x);
        b_rest[n][i] = tf32_rest(x, b[n][i]);
      }
    }
    const uint32_t ones[2] = {weights.one_feature(token + t), weights.one_feature(token + t + 4)};
#pragma unroll
    for (int m = 0; m < Sums::kM; ++m) {
      uint32_t a[4], rest[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x =
            features.whole.at(token + t + i / 2 * 4, Sums::first_row() + 16 * m + g + i % 2 * 8);
        a[i] = to_tf32(x);
        rest[i] = tf32_rest(x, a[i]);
      }
#pragma unroll
      for (int n = 0; n < Sums::kN; ++n) {
        if (kExact) mma_tf32(sums.products[m][n], a, b_rest[n][0], b_rest[n][1]);
        mma_tf32(sums.products[m][n], rest, b[n][0], b[n][1]);
        mma_tf32(sums.products[m][n], a, b[n][0], b[n][1]);
      }
      if (Weights::kSumsFeatures && Sums::sums_features(m)) {
        mma_tf32(sums.features[m % Sums::kMShare], rest, ones[0], ones[1]);
        mma_tf32(sums.features[m % Sums::kMShare], a, ones[0], ones[1]);
      }
    }
    const uint32_t w[4] = {weights.one(token + t, g), 0, weights.one(token + t + 4, g), 0};
#pragma unroll
    for (int n = 0; n < Sums::kN; ++n) {
      if (!Sums::sums_values(n)) continue;
      if (kExact) mma_tf32(sums.values[n % Sums::kNShare], w, b_rest[n][0], b_rest[n][1]);
      mma_tf32(sums.values[n % Sums::kNShare], w, b[n][0], b[n][1]);
    }
  }
}

// Over all tokens of the tile. Tensor cores cut sums off where float32 would round: in float32 a
// tile has sums of its own, which are then added properly.
template <typename T, int kDim, int kTokens, int kCols, class Weights>
__device__ __forceinline__ void accumulate(Sums<T, kDim>& sums,
                                           const FeatureTile<T, kDim, kTokens>& features,
                                           const Tile<T, kCols>& values, int column,
                                           const Weights& weights) {
  if constexpr (std::is_same_v<T, float>) {
    Sums<T, kDim> tile;
#pragma unroll 1
    for (int token = 0; token < kTokens; token += 16) {
      accumulate_step(tile, features, values, column, weights, token);
    }
    sums.add(tile);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const SumAddresses<kDim> from(features.first, values, column);
#pragma unroll 2
    for (int token = 0; token < kTokens; token += 16) {
      accumulate_step<kDim, kTokens, kCols>(sums, from, weights, token);
    }
  } else {
#pragma unroll 1
    for (int token = 0; token < kTokens; token += 16) {
      accumulate_step(sums, features, values, column, weights, token);
    }
  }
}

// Writes the sums of a part: products (D, E) from column `chunk` on, and those of the values.
template <typename T, int kDim>
__device__ __forceinline__ void store_sums(const Sums<T, kDim>& sums, const StateLayout& layout,
                                           int chunk, float* to) {
  using Sums = Sums<T, kDim>;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < Sums::kN; ++n) {
    const int column = chunk + Sums::first_column() + 8 * n + 2 * t;
    const float(&v)[4] = sums.values[n % Sums::kNShare];
    const float v0 = v[0] + __shfl_down_sync(~0u, v[0], 4);
    const float v1 = v[1] + __shfl_down_sync(~0u, v[1], 4);
    if (column >= layout.value_dim) continue;
    if (g == 0 && Sums::sums_values(n)) {
      to[layout.values() + column] = v0;
      to[layout.values() + column + 1] = v1;
    }
#pragma unroll
    for (int m = 0; m < Sums::kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = Sums::first_row() + 16 * m + g + 8 * half;
        if (row >= layout.dim) continue;
        float* at = to + row * layout.value_dim + column;
        at[0] = sums.products[m][n][2 * half];
        at[1] = sums.products[m][n][2 * half + 1];
      }
    }
  }
}

// Adds what the lanes and warps of a block hold of sums over rows, each eight columns of every
// block of 32, and writes them.
template <int kDim>
__device__ __forceinline__ void store_column_sums(const Eight (&sums)[kDim / kBlockCols],
                                                  float* shared, int64_t dim, float* to) {
  constexpr int kWarps = Shape<kDim>::kWarps;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int block = 0; block < kDim / kBlockCols; ++block) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float x = sums[block].x[i];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) x += __shfl_xor_sync(~0u, x, step);
      if (lane < 4) shared[warp * kDim + block * kBlockCols + lane * 8 + i] = x;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < dim; i += kWarps * 32) {
    float x = 0.0f;
    for (int w = 0; w < kWarps; ++w) x += shared[w * kDim + i];
    to[i] = x;
  }
}

}  // namespace mala::gpu
