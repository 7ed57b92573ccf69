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

// Each warp also has weighted sums of values, whose columns are all alike: those of its share, or,
// where there are few, of all, since asking whose they are would cost more. kWeighs: weights are
// not all one.
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
          add_values(values[m % kValueTiles], left, weights);
        }
      }
    }
  }

  // Tensor cores cut sums off where float32 would round: in float32 a tile has sums of its own,
  // which are then added properly.
  __device__ __forceinline__ void add(const Sums& other) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) add4(products[m][n], other.products[m][n]);
    }
#pragma unroll
    for (int m = 0; m < kValueTiles; ++m) add4(values[m], other.values[m]);
  }

 private:
  // Weights are not exact in one part, whatever the type.
  static __device__ __forceinline__ void add_values(float (&c)[4], const Left<T>& left,
                                                    const float (&weights)[2]) {
    if constexpr (!kWeighs) {
      constexpr uint32_t kOne = 0x3F800000u;
#pragma unroll
      for (int part = Left<T>::kParts - 1; part >= 0; --part) mma(c, left.part[part], kOne, kOne);
      return;
    }
    const Parts<float> upper(weights[0], false), lower(weights[1], false);
    mma(c, left.part[0], upper.rest, lower.rest);
    if constexpr (kFine<T>) mma(c, left.part[1], upper.first, lower.first);
    mma(c, left.part[0], upper.first, lower.first);
  }
  static __device__ __forceinline__ void add4(float (&to)[4], const float (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] += x[i];
  }
};

// A sum's place among those of a part: (D, E) products, then vectors.
struct SumTarget {
  const StateLayout& layout;
  int chunk;  // the first of the values
  float* to;
};

// What rounding took from the sum of each feature is put back as if each value had been the mean of
// the part: what values have in common is then as exact as the sums of features are.
struct Correction {
  const float* lost;  // (kDim), in shared memory
  float* values;      // (kChunk), for the means
  float count_inverse;
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
      if (place.t > 0 || m / Sums::kShare != place.slice) continue;
      const auto& c = sums.values[m % Sums::kValueTiles];
      if (correction.lost) {
        correction.values[column] = correction.count_inverse * c[0];
        correction.values[column + 1] = correction.count_inverse * c[2];
      }
      if (target.chunk + column >= target.layout.value_dim) continue;
      target.to[target.layout.values() + target.chunk + column] = c[0];
      target.to[target.layout.values() + target.chunk + column + 1] = c[2];
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
