// The small work between the passes, a few states' worth of arithmetic.
#include "mala/kernels/cpu/heads.h"

#include <algorithm>
#include <cmath>

#include "mala/kernels/rule.h"

namespace mala::cpu {
namespace {

// Rows of `width` elements, padded with zeros to `stride`.
template <typename T, class Value>
void fill_padded(T* to, int64_t width, int64_t stride, Value value) {
  for (int64_t j = 0; j < width; ++j) to[j] = static_cast<T>(value(j));
  std::fill(to + width, to + stride, T(0));
}

// from (rows, cols) -> to (cols, rows), both padded.
template <typename T>
void transpose(const T* from, int64_t rows, int64_t cols, T* to) {
  const int64_t from_stride = padded(cols), to_stride = padded(rows);
  for (int64_t j = 0; j < cols; ++j) {
    fill_padded(to + j * to_stride, rows, to_stride,
                [&](int64_t i) { return from[i * from_stride + j]; });
  }
}

// Every row of a head's sums: where it lies in ours, where in the caller's dense layout, its
// length.
template <class Visit>
void each_row(const StateLayout& layout, Visit visit) {
  const int64_t dim = layout.dim, value_dim = layout.value_dim, products = dim * value_dim;
  for (int64_t i = 0; i < dim; ++i) {
    visit(layout.products() + i * layout.value_pad(), i * value_dim, value_dim);
  }
  visit(layout.keys(), products, dim);
  visit(layout.rotated_keys(), products + dim, dim);
  visit(layout.values(), products + 2 * dim, value_dim);
}

}  // namespace

HeadScales head_scales(const AttentionOptions& options, int64_t dim, int64_t keys) {
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim)));
  const double mean = 1.0 / static_cast<double>(keys);
  const double c = scale * (options.key_mean ? mean : 1.0);
  return {{options.rule, norm_of(options, false), options.eps, c}, c, mean};
}

void add_parts(double* sums, int64_t parts, const StateLayout& layout, Slice slice) {
  const int64_t size = layout.size();
  const int64_t begin = size * slice.index / slice.of, end = size * (slice.index + 1) / slice.of;
  for (int64_t p = 1; p < parts; ++p) {
    const double* part = sums + p * size;
    for (int64_t i = begin; i < end; ++i) sums[i] += part[i];
  }
}

template <typename T>
void write_state(const double* sums, const StateLayout& layout, HeadState<T> state) {
  each_row(layout, [&](int64_t padded_at, int64_t dense_at, int64_t count) {
    std::copy_n(sums + padded_at, count, state.products + dense_at);
  });
}

template <typename T>
void read_state(HeadState<const T> state, const StateLayout& layout, double* sums) {
  each_row(layout, [&](int64_t padded_at, int64_t dense_at, int64_t count) {
    std::copy_n(state.products + dense_at, count, sums + padded_at);
  });
}

template <typename T>
void prepare_head(HeadState<const T> state, const StateLayout& layout, const HeadScales& scales,
                  const HeadOperands<T>& head) {
  const Weighting& weighting = scales.weighting;
  const T* keys = weighting.rotated_magnitude() ? state.rotated_keys : state.keys;
  fill_padded(head.key, layout.dim, layout.dim_pad(),
              [&](int64_t i) { return scales.key_factor * static_cast<double>(keys[i]); });
  auto mean = [&](int64_t j) { return scales.value_factor * static_cast<double>(state.values[j]); };
  fill_padded(head.value_mean, layout.value_dim, layout.value_pad(), mean);
  for (int64_t i = 0; i < layout.dim; ++i) {
    const T* row = state.products + i * layout.value_dim;
    const double centre = weighting.centred() ? static_cast<double>(state.rotated_keys[i]) : 0.0;
    fill_padded(head.state + i * layout.value_pad(), layout.value_dim, layout.value_pad(),
                [&](int64_t j) { return static_cast<double>(row[j]) - centre * mean(j); });
  }
}

template <typename T>
void transpose_state(const StateLayout& layout, const HeadOperands<T>& head) {
  transpose(head.state, layout.dim, layout.value_dim, head.state_transposed);
}

// The balanced norm's mean value also moves the centre of the state.
template <typename T>
void finish_gradient(double* sums, HeadState<const T> state, const StateLayout& layout,
                     const HeadScales& scales) {
  double *keys = sums + layout.keys(), *values = sums + layout.values();
  for (int64_t i = 0; scales.weighting.centred() && i < layout.dim; ++i) {
    const double* row = sums + layout.products() + i * layout.value_pad();
    const double key = static_cast<double>(state.rotated_keys[i]);
    for (int64_t j = 0; j < layout.value_dim; ++j) values[j] -= row[j] * key;
  }
  for (int64_t i = 0; i < layout.dim; ++i) keys[i] *= scales.key_factor;
  for (int64_t j = 0; j < layout.value_dim; ++j) values[j] *= scales.value_factor;
  if (scales.weighting.rotated_magnitude()) {
    std::swap_ranges(keys, keys + layout.dim, sums + layout.rotated_keys());
  }
}

template <typename T>
void add_centre_gradient(double* sums, HeadState<const T> state, const StateLayout& layout,
                         const HeadScales& scales) {
  if (!scales.weighting.centred()) return;
  double* rotated_keys = sums + layout.rotated_keys();
  for (int64_t i = 0; i < layout.dim; ++i) {
    const double* row = sums + layout.products() + i * layout.value_pad();
    for (int64_t j = 0; j < layout.value_dim; ++j) {
      rotated_keys[i] -= row[j] * scales.value_factor * static_cast<double>(state.values[j]);
    }
  }
}

template <typename T>
void prepare_head_gradient(const double* sums, const StateLayout& layout,
                           const HeadOperands<T>& head) {
  const int64_t value_pad = layout.value_pad();
  auto fill = [&](T* to, int64_t from, int64_t width) {
    fill_padded(to, width, padded(width), [&](int64_t i) { return sums[from + i]; });
  };
  for (int64_t i = 0; i < layout.dim; ++i) {
    fill(head.d_state + i * value_pad, layout.products() + i * value_pad, layout.value_dim);
  }
  transpose(head.d_state, layout.dim, layout.value_dim, head.d_state_transposed);
  fill(head.d_key, layout.keys(), layout.dim);
  fill(head.d_rotated_key, layout.rotated_keys(), layout.dim);
  fill(head.d_value, layout.values(), layout.value_dim);
}

#define MALA_INSTANTIATE(T)                                                             \
  template void write_state(const double*, const StateLayout&, HeadState<T>);           \
  template void read_state(HeadState<const T>, const StateLayout&, double*);            \
  template void prepare_head(HeadState<const T>, const StateLayout&, const HeadScales&, \
                             const HeadOperands<T>&);                                   \
  template void transpose_state(const StateLayout&, const HeadOperands<T>&);            \
  template void finish_gradient(double*, HeadState<const T>, const StateLayout&,        \
                                const HeadScales&);                                     \
  template void add_centre_gradient(double*, HeadState<const T>, const StateLayout&,    \
                                    const HeadScales&);                                 \
  template void prepare_head_gradient(const double*, const StateLayout&, const HeadOperands<T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
