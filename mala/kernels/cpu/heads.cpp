// The small work between the passes, a few states' worth of arithmetic.
#include "mala/kernels/cpu/heads.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

HeadScales head_scales(const AttentionOptions& options, int64_t dim, int64_t keys) {
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim)));
  const double mean = 1.0 / static_cast<double>(keys);
  const double c = scale * (options.key_mean ? mean : 1.0);
  return {{options.rule, options.norm, options.eps, c}, c, mean};
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
  const int64_t value_dim = layout.value_dim;
  for (int64_t i = 0; i < layout.dim; ++i) {
    const double* row = sums + layout.products() + i * layout.value_pad();
    std::copy_n(row, value_dim, state.products + i * value_dim);
  }
  std::copy_n(sums + layout.keys(), layout.dim, state.keys);
  std::copy_n(sums + layout.rotated_keys(), layout.dim, state.rotated_keys);
  std::copy_n(sums + layout.values(), value_dim, state.values);
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

template <typename T>
void prepare_head_gradient(const double* sums, HeadState<const T> state, const StateLayout& layout,
                           const HeadScales& scales, const HeadOperands<T>& head) {
  const int64_t value_pad = layout.value_pad();
  const double* products = sums + layout.products();
  for (int64_t i = 0; i < layout.dim; ++i) {
    fill_padded(head.d_state + i * value_pad, layout.value_dim, value_pad,
                [&](int64_t j) { return products[i * value_pad + j]; });
  }
  transpose(head.d_state, layout.dim, layout.value_dim, head.d_state_transposed);
  fill_padded(head.d_key, layout.dim, layout.dim_pad(),
              [&](int64_t i) { return scales.key_factor * sums[layout.keys() + i]; });
  // The balanced norm's mean value also moves the centre of the state.
  auto centre = [&](int64_t j) {
    double sum = 0;
    for (int64_t i = 0; i < layout.dim; ++i) {
      sum += products[i * value_pad + j] * static_cast<double>(state.rotated_keys[i]);
    }
    return sum;
  };
  fill_padded(head.d_value, layout.value_dim, value_pad, [&](int64_t j) {
    const double gradient = sums[layout.values() + j];
    return scales.value_factor * (scales.weighting.centred() ? gradient - centre(j) : gradient);
  });
}

#define MALA_INSTANTIATE(T)                                                                  \
  template void write_state(const double*, const StateLayout&, HeadState<T>);                \
  template void prepare_head(HeadState<const T>, const StateLayout&, const HeadScales&,      \
                             const HeadOperands<T>&);                                        \
  template void transpose_state(const StateLayout&, const HeadOperands<T>&);                 \
  template void prepare_head_gradient(const double*, HeadState<const T>, const StateLayout&, \
                                      const HeadScales&, const HeadOperands<T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
#undef MALA_INSTANTIATE

}  // namespace mala::cpu
