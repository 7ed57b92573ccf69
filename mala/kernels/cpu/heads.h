// Between the passes: a head's sums become its state, and the state what the next pass reads.
#pragma once

#include <span>

#include "mala/kernels/attention.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/passes.h"

namespace mala::cpu {

// Sums over the keys of one head in the caller's layout: dense, one after the other.
template <typename T>
struct HeadState {
  T *products, *keys, *rotated_keys, *values;

  HeadState(T* state, int64_t dim, int64_t value_dim)
      : products(state),
        keys(products + dim * value_dim),
        rotated_keys(keys + dim),
        values(rotated_keys + dim) {}
};

// That of one unit among those of all.
template <typename T>
HeadState<T> state_of(std::span<T> all, int64_t unit, const StateLayout& layout) {
  const int64_t size = attention_state_size(1, 1, layout.dim, layout.value_dim);
  return {all.data() + unit * size, layout.dim, layout.value_dim};
}

// What a head's numbers mean: its weighting and the factors of its means.
struct HeadScales {
  Weighting weighting;
  double key_factor;    // scale * kappa: from the sum of keys to head.key
  double value_factor;  // 1 / M: from the sum of values to their mean
};

HeadScales head_scales(const AttentionOptions& options, int64_t dim, int64_t keys);

// One of `of` equal slices of something.
struct Slice {
  int64_t index, of;
};

// Adds a slice of the parts' sums, in order, into the first.
void add_parts(double* sums, int64_t parts, const StateLayout& layout, Slice slice);

// The caller's state from a head's sums, and back; also their gradients.
template <typename T>
void write_state(const double* sums, const StateLayout& layout, HeadState<T> state);
template <typename T>
void read_state(HeadState<const T> state, const StateLayout& layout, double* sums);

// What the passes over queries read. Its transpose is for the backward alone.
template <typename T>
void prepare_head(HeadState<const T> state, const StateLayout& layout, const HeadScales& scales,
                  const HeadOperands<T>& head);
template <typename T>
void transpose_state(const StateLayout& layout, const HeadOperands<T>& head);

// From the sums of the pass over queries to the gradient of the state's sums. That of the rotated
// keys still lacks what the balanced norm's centre gives them, which the pass over keys has no
// need of where it knows the mean value.
template <typename T>
void finish_gradient(double* sums, HeadState<const T> state, const StateLayout& layout,
                     const HeadScales& scales);
template <typename T>
void add_centre_gradient(double* sums, HeadState<const T> state, const StateLayout& layout,
                         const HeadScales& scales);

// What the last pass, over keys, reads: from the gradient of the state's sums.
template <typename T>
void prepare_head_gradient(const double* sums, const StateLayout& layout,
                           const HeadOperands<T>& head);

}  // namespace mala::cpu
