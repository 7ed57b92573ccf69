// The two passes of the backward: over queries, which gives the state's gradient, then over keys.
#if defined(MALA_CPU_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_BACKWARD_INL_H_
#undef MALA_CPU_BACKWARD_INL_H_
#else
#define MALA_CPU_BACKWARD_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/matmul-inl.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/rows-inl.h"
#include "mala/kernels/cpu/stage-inl.h"
#include "mala/kernels/cpu/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// products (kBlock, D) = rows (kBlock, E) * matrix (E, D).
template <typename T>
HWY_INLINE void project_rows(Rows<const T> rows, const T* matrix, Extent size, T* products,
                             Prefetch<T>& meanwhile) {
  const hn::ScalableTag<T> d;
  compute_product<T>(
      Plain<T>{rows.data, rows.stride}, Right<T>{matrix, size.columns}, size,
      [=](int64_t row, int64_t column, hn::Vec<decltype(d)> product)
          HWY_ATTR { hn::StoreU(product, d, products + row * size.columns + column); },
      meanwhile);
}

// How the gradient of a rotated feature becomes that of the raw query or key x:
//   dx = phi'(x) * (R^T (weight * y) + mean_weight * key)
// with the key's term inside the rotation where the magnitude is that of rotated features.
template <typename T>
struct PullBack {
  const Tokens<T>& tokens;
  const Features<T>& features;
  const T* rotation;
  const T* key;
  bool key_rotated;

  // Uses y as working memory.
  HWY_INLINE void row(int64_t i, T weight, T key_weight, T* y, T* dx) const {
    const hn::ScalableTag<T> d;
    const int64_t dim = features.plain.stride, lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto w = hn::Set(d, weight);
    const auto inner = hn::Set(d, key_rotated ? key_weight : T(0));
    const auto outer = hn::Set(d, key_rotated ? T(0) : key_weight);
    for (int64_t j = 0; j < dim; j += lanes) {
      const auto scaled = hn::Mul(hn::LoadU(d, y + j), w);
      hn::StoreU(hn::MulAdd(hn::LoadU(d, key + j), inner, scaled), d, y + j);
    }
    if (tokens.angles->rotates()) rotate_row<-1>(y, rotation + i * dim, dim, y);
    with_feature(tokens.feature, [&](auto map) HWY_ATTR {
      for (int64_t j = 0; j < dim; j += lanes) {
        const auto dphi = hn::MulAdd(hn::LoadU(d, key + j), outer, hn::LoadU(d, y + j));
        const auto phi = hn::LoadU(d, features.plain.row(i) + j);
        hn::StoreU(hn::Mul(feature_slope<decltype(map)::value>(d, phi), dphi), d, dx + j);
      }
    });
  }
};

// to = a * b, row by row; `to` may be one of them.
template <typename T>
HWY_INLINE void multiply_rows(Rows<const T> a, Rows<const T> b, Extent size, Rows<T> to) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < size.rows; ++i) {
    for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto product = hn::Mul(hn::LoadU(d, a.row(i) + j), hn::LoadU(d, b.row(i) + j));
      hn::StoreU(product, d, to.row(i) + j);
    }
  }
}

// The gradient of the attention before the tail, and on the way those of local and gate.
template <typename T>
HWY_INLINE Rows<const T> pass_tail(const QueryGradients<T>& task, Span block,
                                   const Features<T>& features, const Weights<T>& weights,
                                   const Tiles<T>& tiles, Prefetch<T>& meanwhile) {
  const hn::ScalableTag<T> d;
  const int64_t value_pad = padded(task.out_gradient.cols);
  const Extent size{block.count, value_pad, task.queries.x.cols};
  Rows<const T> gradient = stage(task.out_gradient, block, tiles.values);
  const Rows<const T> local = stage(task.local, block, tiles.local);
  const Rows<const T> gate = stage(task.gate, block, tiles.gate);
  if (gate.data) {
    const Rows<T> d_gate = stage_output(task.d_gate, block, tiles.outputs);
    compute_attention(
        features, task.head, weights, size,
        [&](int64_t row, int64_t column, hn::Vec<decltype(d)> y) HWY_ATTR {
          if (local.data) y = hn::Add(y, hn::LoadU(d, local.row(row) + column));
          y = hn::Mul(y, hn::LoadU(d, gradient.row(row) + column));
          hn::StoreU(y, d, d_gate.row(row) + column);
        },
        meanwhile);
    unstage(d_gate, block, task.d_gate);
    const Rows<T> product{tiles.values, value_pad};
    multiply_rows(gradient, gate, size, product);
    gradient = read_only(product);
  }
  if (local.data) {
    const Rows<T> d_local = stage_output(task.d_local, block, tiles.outputs);
    for (int64_t i = 0; i < block.count; ++i) {
      std::copy_n(gradient.row(i), value_pad, d_local.row(i));
    }
    unstage(d_local, block, task.d_local);
  }
  return gradient;
}

template <typename T>
void query_gradients(const QueryGradients<T>& task, const Tiles<T>& tiles) {
  const Tokens<T>& queries = task.queries;
  const HeadOperands<T>& head = task.head;
  const StateLayout layout{queries.x.cols, task.out_gradient.cols};
  const int64_t dim_pad = layout.dim_pad(), value_pad = layout.value_pad();
  const bool rotated_magnitude = task.weighting.rotated_magnitude();
  T* group = tiles.group;
  GroupedSums<T> sums(group, task.sums, layout.size());
  RotationWalk<T> walk(*queries.angles, queries.span.first);
  Weights<T> weights;
  for_each_block(queries.span, [&](Span block, bool last) HWY_ATTR {
    Prefetch<T> next;
    next.add(queries.x, block.first + kBlock);
    next.add(task.out_gradient, block.first + kBlock);
    const Features<T> features = stage_features(queries, block, walk, tiles);
    compute_weights(task.weighting, features, block.count, head.key, weights);
    const Rows<const T> gradient = pass_tail(task, block, features, weights, tiles, next);
    project_rows(gradient, head.state_transposed, {block.count, dim_pad, layout.value_dim},
                 tiles.products, next);

    const Rows<T> d_query = stage_output(task.d_query, block, tiles.raw);
    const PullBack<T> pull{queries, features, tiles.rotation, head.key, rotated_magnitude};
    T magnitude_gradient[kBlock];
    for (int64_t i = 0; i < block.count; ++i) {
      T* product = tiles.products + i * dim_pad;
      magnitude_gradient[i] =
          weights.product_slope[i] * dot(features.rotated.row(i), product, dim_pad) +
          weights.mean_slope[i] * dot(gradient.row(i), head.value_mean, value_pad);
      pull.row(i, weights.product[i], magnitude_gradient[i], product, d_query.row(i));
    }
    unstage(d_query, block, task.d_query);

    const Rows<const T> magnitude =
        rotated_magnitude ? read_only(features.rotated) : features.plain;
    add_weighted_rows(magnitude, {block.count, dim_pad, 0}, magnitude_gradient,
                      group + layout.keys());
    add_weighted_rows(gradient, {block.count, value_pad, 0}, weights.mean, group + layout.values());
    // Last, because without RoPE the rotated features are the features.
    scale_rows(weights.product, {block.count, dim_pad, 0}, features.rotated);
    accumulate_product(Transposed<T>{features.rotated.data, features.rotated.stride},
                       Right<T>{gradient.data, gradient.stride},
                       {layout.dim, value_pad, block.count}, group + layout.products(), next);
    sums.end_block(block.count, last);
  });
}

// The balanced norm sees values less their mean.
template <typename T>
HWY_INLINE Rows<const T> stage_values(const KeyGradients<T>& task, Span block,
                                      const Tiles<T>& tiles) {
  const hn::ScalableTag<T> d;
  const Rows<const T> values = stage(task.values, block, tiles.values);
  if (!task.weighting.centred()) return values;
  const Rows<T> centred{tiles.values, padded(task.values.cols)};
  for (int64_t i = 0; i < block.count; ++i) {
    for (int64_t j = 0; j < centred.stride; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto mean = hn::LoadU(d, task.head.value_mean + j);
      hn::StoreU(hn::Sub(hn::LoadU(d, values.row(i) + j), mean), d, centred.row(i) + j);
    }
  }
  return read_only(centred);
}

template <typename T>
void key_gradients(const KeyGradients<T>& task, const Tiles<T>& tiles) {
  const hn::ScalableTag<T> d;
  const Tokens<T>& keys = task.keys;
  const HeadOperands<T>& head = task.head;
  const StateLayout layout{keys.x.cols, task.values.cols};
  RotationWalk<T> walk(*keys.angles, keys.span.first);
  for_each_block(keys.span, [&](Span block, bool) HWY_ATTR {
    Prefetch<T> next;
    next.add(keys.x, block.first + kBlock);
    next.add(task.values, block.first + kBlock);
    const Features<T> features = stage_features(keys, block, walk, tiles);
    project_rows(stage_values(task, block, tiles), head.d_state_transposed,
                 {block.count, layout.dim_pad(), layout.value_dim}, tiles.products, next);
    const Rows<T> d_key = stage_output(task.d_key, block, tiles.raw);
    const PullBack<T> pull{keys, features, tiles.rotation, head.d_key,
                           task.weighting.rotated_magnitude()};
    for (int64_t i = 0; i < block.count; ++i) {
      pull.row(i, T(1), T(1), tiles.products + i * layout.dim_pad(), d_key.row(i));
    }
    unstage(d_key, block, task.d_key);

    const Rows<T> d_value = stage_output(task.d_value, block, tiles.outputs);
    compute_product<T>(
        Plain<T>{features.rotated.data, features.rotated.stride},
        Right<T>{head.d_state, layout.value_pad()}, {block.count, layout.value_pad(), layout.dim},
        [&](int64_t row, int64_t column, hn::Vec<decltype(d)> product) HWY_ATTR {
          if (row >= block.count) return;
          const auto mean = hn::LoadU(d, head.d_value + column);
          hn::StoreU(hn::Add(product, mean), d, d_value.row(row) + column);
        },
        next);
    unstage(d_value, block, task.d_value);
  });
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
