// Sums over the tokens of a tile: features (x) values as matrix products, spread over the warps of
// a block, and the vectors that belong to a state.
//
// Here lane (g, t) of a warp has tokens t and t + 4 of eight, and of the warp's 32 features and of
// each block of 32 values the four from 4 g on. Values are the left side, features the right.
#pragma once

#include "mala/kernels/cuda/mma.cuh"

namespace mala::gpu {

// Which piece of its block's sums a warp has, and a lane of it.
template <typename T, int kDim>
struct SumPlace {
  using S = SumShape<T, kDim>;
  int slice, group, g, t;

  __device__ __forceinline__ SumPlace() : g(threadIdx.x % 32 / 4), t(threadIdx.x % 4) {
    // Taken from one lane, so that the compiler knows it to be the same for all.
    const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
    slice = warp % S::kSlices;
    group = warp / S::kSlices;
  }
  __device__ __forceinline__ int first_feature() const { return slice * 32; }
  __device__ __forceinline__ int feature() const { return slice * 32 + 4 * g; }
  // The first of the lane's tokens in a tile; others follow kStep apart.
  __device__ __forceinline__ int first_token() const { return 8 * group + t; }
  static constexpr int kStep = 8 * S::kGroups;
};

// Where fours of a lane lie in tiles of tokens: column c of tokens t and t + 4, and blocks of 32
// columns after it. What changes from step to step, and from one even block to the next, is a
// constant.
template <typename U, int kCols>
struct FourAddresses {
  static constexpr int kRowBytes = kCols * sizeof(U), kBlockBytes = kBlockCols * sizeof(U);
  uint32_t even[2], odd[2];

  __device__ __forceinline__ FourAddresses(const Tile<U, kCols>& tile, int token, int column) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      even[half] = shared_address(tile.four(token + 4 * half, column));
      odd[half] = shared_address(tile.four(token + 4 * half, (column + kBlockCols) % kCols));
    }
  }
  // From `tokens` rows and so many bytes further on.
  __device__ __forceinline__ Four four(int half, int block, int tokens, int bytes) const {
    return load_shared_four<U>((block % 2 == 0 ? even[half] : odd[half]) +
                               block / 2 * 2 * kBlockBytes + tokens * kRowBytes + bytes);
  }
};

// Each warp also has weighted sums of values: those of its share, or, where there are few, of all,
// since asking whose they are would cost more. Tensor cores sum them, in columns that are all
// alike; of fine types they would cut off too much, and each lane sums its own, of two tokens by
// themselves. kWeighs: weights are not all one.
template <typename T, int kDim, bool kWeighs>
struct Sums {
  using S = SumShape<T, kDim>;
  static constexpr int kTiles = S::kChunk / 16;
  static constexpr int kShare = (kTiles + S::kSlices - 1) / S::kSlices;
  static constexpr bool kSumsAll = S::kSlices == 2;
  static constexpr int kValueTiles = kSumsAll ? kTiles : kShare;

  float products[kTiles][4][4] = {};  // rows are values, columns are features
  float values[kValueTiles][4] = {};

  // += over eight tokens: this lane's features of two of them, weights of both for the values, and
  // where the values are.
  template <class Place, class Values>
  __device__ __forceinline__ void add(const Place& place, const FourParts<T>& upper,
                                      const FourParts<T>& lower, const float (&weights)[2],
                                      Values values_of) {
#pragma unroll
    for (int block = 0; block < S::kChunk / kBlockCols; ++block) {
      const Four a = values_of(0, block), b = values_of(1, block);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = 2 * block + half;
        const Left<T> left(a.x[2 * half], a.x[2 * half + 1], b.x[2 * half], b.x[2 * half + 1],
                           true);
#pragma unroll
        for (int n = 0; n < 4; ++n) multiply(products[m][n], left, upper.x[n], lower.x[n]);
        if (kSumsAll || m / kShare == place.slice) {
          float(&to)[4] = values[m % kValueTiles];
          if constexpr (kFine<T>) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              to[2 * i] = fmaf(weights[0], a.x[2 * half + i], to[2 * i]);
              to[2 * i + 1] = fmaf(weights[1], b.x[2 * half + i], to[2 * i + 1]);
            }
          } else {
            add_values(to, left, weights);
          }
        }
      }
    }
  }

  // The sums of values g and g + 8 of a tile, by all lanes of the warp.
  __device__ __forceinline__ float2 values_of(int tile) const {
    const float(&c)[4] = values[tile % kValueTiles];
    if constexpr (kFine<T>) return {row_sum(c[0] + c[1]), row_sum(c[2] + c[3])};
    return {c[0], c[2]};
  }

 private:
  // Weights are not exact in one part.
  static __device__ __forceinline__ void add_values(float (&c)[4], const Left<T>& left,
                                                    const float (&weights)[2]) {
    if constexpr (!kWeighs) {
      constexpr uint32_t kOne = 0x3F800000u;
      mma(c, left.part[0], kOne, kOne);
    } else {
      const Parts<float> upper(weights[0], false), lower(weights[1], false);
      mma(c, left.part[0], upper.rest, lower.rest);
      mma(c, left.part[0], upper.first, lower.first);
    }
  }
};

// A sum's place among those of a part: (D, E) products, then vectors.
struct SumTarget {
  const StateLayout& layout;
  int chunk;  // the first of the values
  float* to;
};

// What rounding took from the sum of each feature is put back as if each value had been the mean of
// the part: what values have in common is then as exact as the sums of features are. Of fine types,
// values were summed about a centre: that is put back, as often as there were values and features.
struct Correction {
  const float* lost;  // (kDim), in shared memory; of fine types all that features sum up to
  float* values;      // (kChunk), for the means; of fine types the centre
  float count;
};

// Adds the sums of the groups of a block, group 0 last, and writes them.
template <typename T, int kDim, bool kWeighs>
class SumWriter {
  using S = SumShape<T, kDim>;
  using Place = SumPlace<T, kDim>;
  using Sums = gpu::Sums<T, kDim, kWeighs>;

 public:
  static constexpr int kBytes = (S::kGroups - 1) * 32 * S::kSlices * sizeof(Sums);

  // `shared` has kBytes that nobody uses any more.
  static __device__ __forceinline__ void write(Sums& sums, const Place& place, void* shared,
                                               const SumTarget& target,
                                               const Correction& correction = {}) {
    if constexpr (S::kGroups == 2) {
      float* mine = static_cast<float*>(shared) + threadIdx.x % (32 * S::kSlices);
      if (place.group == 1) each(sums, mine, [](float& at, float& x) { at = x; });
      __syncthreads();
      if (place.group == 0) each(sums, mine, [](float& at, float& x) { x += at; });
    }
    if (place.group == 0) write_values(sums, place, target, correction);
    __syncthreads();
    if (place.group == 0) write_products(sums, place, target, correction);
  }

 private:
  // Calls with a place of shared memory and a number, for each number of the sums.
  template <class Run>
  static __device__ __forceinline__ void each(Sums& sums, float* at, Run run) {
    float* numbers = reinterpret_cast<float*>(&sums);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Sums) / 4); ++i) {
      run(at[i * 32 * S::kSlices], numbers[i]);
    }
  }

  // Of eight features of each lane t, four neighbouring values of each block.
  static __device__ __forceinline__ void write_products(const Sums& sums, const Place& place,
                                                        const SumTarget& target,
                                                        const Correction& correction) {
#pragma unroll
    for (int block = 0; block < S::kChunk / kBlockCols; ++block) {
      const int column = target.chunk + block * kBlockCols + 4 * place.g;
      if (column >= target.layout.value_dim) continue;
      Four means = {};
      if (correction.lost) means = load_four(correction.values + block * kBlockCols + 4 * place.g);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int row = place.first_feature() + 8 * place.t + i, n = i % 4, at = i / 4;
        if (row >= target.layout.dim) continue;
        const auto& c = sums.products;
        Four four = {{c[2 * block][n][at], c[2 * block][n][at + 2], c[2 * block + 1][n][at],
                      c[2 * block + 1][n][at + 2]}};
        if (correction.lost) add_scaled(four, correction.lost[row], means);
        store_four(target.to + row * target.layout.value_dim + column, four);
      }
    }
  }

  static __device__ __forceinline__ void write_values(const Sums& sums, const Place& place,
                                                      const SumTarget& target,
                                                      const Correction& correction) {
#pragma unroll
    for (int m = 0; m < Sums::kTiles; ++m) {
      const int column = m / 2 * kBlockCols + 4 * place.g + m % 2 * 2;
      if (m / Sums::kShare != place.slice) continue;
      float2 two = sums.values_of(m);
      if (place.t > 0) continue;
      if (correction.lost) correct(two, correction, column);
      if (target.chunk + column >= target.layout.value_dim) continue;
      target.to[target.layout.values() + target.chunk + column] = two.x;
      target.to[target.layout.values() + target.chunk + column + 1] = two.y;
    }
  }
  static __device__ __forceinline__ void correct(float2& sums, const Correction& by, int column) {
    float* values = by.values + column;
    if constexpr (kFine<T>) {
      sums.x = fmaf(by.count, values[0], sums.x);
      sums.y = fmaf(by.count, values[1], sums.y);
    } else {
      const float inverse = 1.0f / by.count;
      values[0] = inverse * sums.x;
      values[1] = inverse * sums.y;
    }
  }
};

// Adds what the lanes of a block hold of sums over its features, and writes them, to `dim` places.
// `shared` has kGroups * kDim floats.
template <typename T, int kDim>
__device__ __forceinline__ void write_feature_sums(Four sums, const SumPlace<T, kDim>& place,
                                                   float* shared, int64_t dim, float* to) {
  using S = SumShape<T, kDim>;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums.x[i] += __shfl_xor_sync(~0u, sums.x[i], 1);
    sums.x[i] += __shfl_xor_sync(~0u, sums.x[i], 2);
  }
  __syncthreads();
  if (place.t == 0) store_four(shared + place.group * kDim + place.feature(), sums);
  __syncthreads();
  for (int i = threadIdx.x; i < dim; i += S::kThreads) {
    to[i] = shared[i] + (S::kGroups == 2 ? shared[kDim + i] : 0.0f);
  }
}

}  // namespace mala::gpu
