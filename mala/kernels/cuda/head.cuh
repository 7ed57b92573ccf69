// What every query or key of a head meets, made from its state at the start of a block.
#pragma once

#include "mala/kernels/cuda/call.h"
#include "mala/kernels/cuda/feature.cuh"
#include "mala/kernels/cuda/mma.cuh"
#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {

// The factors of a head's means.
struct HeadScales {
  float c;           // scale * kappa
  float value_mean;  // 1 / M
};

template <typename T>
__device__ __forceinline__ HeadScales head_scales(const Call<T>& call, int64_t keys) {
  if constexpr (!kFine<T>) {  // a division of doubles is longer than the rest of this
    const float mean = nearly_inverse(static_cast<float>(keys));
    return {call.key_mean ? call.scale * mean : call.scale, mean};
  } else {
    const double mean = 1.0 / static_cast<double>(keys);
    return {static_cast<float>(call.scale * (call.key_mean ? mean : 1.0)),
            static_cast<float>(mean)};
  }
}

// Vectors of kDim floats in shared memory, padded with zeros.
template <int kDim>
struct QueryVectors {
  static constexpr int kBytes = 4 * kDim * 4;
  float *key, *rotated_key, *value_mean, *rotated_sum;

  __device__ __forceinline__ explicit QueryVectors(void* memory)
      : key(static_cast<float*>(memory)),
        rotated_key(key + kDim),
        value_mean(key + 2 * kDim),
        rotated_sum(key + 3 * kDim) {}
};

template <typename T, int kDim>
__device__ __forceinline__ void fill_vectors(const Call<T>& call, const float* state,
                                             const HeadScales& scales,
                                             const QueryVectors<kDim>& to) {
  const StateLayout& layout = call.layout;
  for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
    const bool is_key = i < layout.dim;
    const float rotated = is_key ? state[layout.rotated_keys() + i] : 0.0f;
    const float plain = is_key ? state[layout.keys() + i] : 0.0f;
    to.key[i] = scales.c * plain;
    to.rotated_key[i] = scales.c * rotated;
    to.rotated_sum[i] = rotated;
    to.value_mean[i] = i < layout.value_dim ? scales.value_mean * state[layout.values() + i] : 0.0f;
  }
  __syncthreads();
}

// Element (row, column) of a padded (D, E) matrix.
__device__ __forceinline__ float element(const float* matrix, const StateLayout& layout, int row,
                                         int column) {
  const bool exists = row < layout.dim && column < layout.value_dim;
  return exists ? matrix[row * layout.value_dim + column] : 0.0f;
}

// S less what a mean value makes of it. All norms work with it: what queries have in common cancels
// in float32, and the products see only differences.
template <int kDim>
__device__ __forceinline__ float centred_element(const float* state, const StateLayout& layout,
                                                 const QueryVectors<kDim>& head, int row,
                                                 int column) {
  return fmaf(-head.rotated_sum[row], head.value_mean[column], element(state, layout, row, column));
}

template <typename T, int kDim>
__device__ __forceinline__ void fill_centred(const float* state, const StateLayout& layout,
                                             const QueryVectors<kDim>& head,
                                             const Right<T, kDim>& right) {
  fill_right(right, [&](int row, int column) {
    return centred_element(state, layout, head, row, column);
  });
}
template <typename T, int kDim>
__device__ __forceinline__ void fill_centred_transposed(const float* state,
                                                        const StateLayout& layout,
                                                        const QueryVectors<kDim>& head,
                                                        const Right<T, kDim>& right) {
  fill_right(right, [&](int row, int column) {
    return centred_element(state, layout, head, column, row);
  });
}

// What the pass over keys of the backward adds to its products, for keys before and after they are
// turned back.
template <int kDim>
struct KeyVectors {
  static constexpr int kBytes = 5 * kDim * 4;
  float *d_rotated_key, *d_key, *mean_key, *value_base, *value_mean;

  __device__ __forceinline__ explicit KeyVectors(void* memory)
      : d_rotated_key(static_cast<float*>(memory)),
        d_key(d_rotated_key + kDim),
        mean_key(d_rotated_key + 2 * kDim),
        value_base(d_rotated_key + 3 * kDim),
        value_mean(d_rotated_key + 4 * kDim) {}
};

// From the state and its gradient dS, of which `sums` also has those over queries.
template <typename T, int kDim>
__device__ __forceinline__ void fill_vectors(const Call<T>& call, const float* state,
                                             const float* sums, const HeadScales& scales,
                                             const KeyVectors<kDim>& to) {
  const StateLayout& layout = call.layout;
  const bool late = call.rotated_magnitude();
  for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
    const bool is_key = i < layout.dim, is_value = i < layout.value_dim;
    const float key = is_key ? scales.c * sums[layout.keys() + i] : 0.0f;
    // dS times the mean value, as queries summed it in float32; nothing where values are centred.
    const float centre = is_key ? sums[layout.rotated_keys() + i] : 0.0f;
    to.d_rotated_key[i] = late ? centre + key : centre;
    to.d_key[i] = late ? 0.0f : key;
    to.mean_key[i] = is_key ? scales.value_mean * state[layout.rotated_keys() + i] : 0.0f;
    to.value_mean[i] = is_value ? scales.value_mean * state[layout.values() + i] : 0.0f;
    to.value_base[i] = is_value ? scales.value_mean * sums[layout.values() + i] : 0.0f;
  }
}

// Of a vector in shared memory, from a column on.
__device__ __forceinline__ Eight eight_of(const float* vector, int column) {
  return load_eight<float>(vector + column);
}
template <int kCount>
__device__ __forceinline__ Some<kCount> some_of(const float* vector, int column) {
  if constexpr (kCount == 4) {
    return load_four(vector + column);
  } else {
    return eight_of(vector, column);
  }
}

}  // namespace mala::gpu
