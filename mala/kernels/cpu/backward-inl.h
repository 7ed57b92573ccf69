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
                             Prefetch& meanwhile) {
  const hn::ScalableTag<T> d;
  compute_product<T>(
      Plain<T>{rows.data, rows.stride}, Right<T>{matrix, size.columns}, size,
      [=](int64_t row, int64_t column, hn::Vec<decltype(d)> product)
          HWY_ATTR { hn::StoreU(product, d, products + row * size.columns + column); },
      meanwhile);
}

// dx = phi'(x) * dphi, from the features phi(x).
template <typename T>
HWY_INLINE void pass_through_feature(Feature feature_map, Rows<const T> features,
                                     Rows<const T> d_features, Extent size, Rows<T> dx) {
  const hn::ScalableTag<T> d;
  with_feature(feature_map, [&](auto map) HWY_ATTR {
    for (int64_t i = 0; i < size.rows; ++i) {
      for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
        const auto phi = hn::LoadU(d, features.row(i) + j);
        const auto slope = feature_slope<decltype(map)::value>(d, phi);
        hn::StoreU(hn::Mul(slope, hn::LoadU(d, d_features.row(i) + j)), d, dx.row(i) + j);
      }
    }
  });
}

// What pull_back needs of the keys or queries of a block.
template <typename T>
struct PullBack {
  Feature feature;
  Rows<const T> features;
  Extent size;
  const T *key, *rotated_key;  // null where there is no such term
};

// From y, the gradient of rotated features less that of the magnitude, to the gradient of the raw
// queries or keys: dx = phi'(x) * (R^T (y + weight * rotated_key) + weight * key). Uses y as
// working memory.
template <typename T>
HWY_INLINE void pull_back(const PullBack<T>& by, RotationWalk<T>& walk, const T* weights, Rows<T> y,
                          Rows<T> dx) {
  if (by.rotated_key) add_outer(weights, by.rotated_key, by.size, y);
  walk.template rotate<true>(read_only(y), y, by.size.rows);
  if (by.key) add_outer(weights, by.key, by.size, y);
  pass_through_feature(by.feature, by.features, read_only(y), by.size, dx);
}

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

template <typename T>
class QueryGradientPass {
 public:
  QueryGradientPass(const QueryGradients<T>& task, const Tiles<T>& tiles)
      : task_(task),
        tiles_(tiles),
        layout_{task.queries.x.cols, task.out_gradient.cols},
        sums_(tiles.group, task.sums, layout_.size()),
        walk_(task.queries) {}

  void run() {
    for_each_block(task_.queries.span,
                   [&](Span block, bool last) HWY_ATTR { run_block(block, last); });
  }

 private:
  HWY_INLINE void run_block(Span block, bool last) {
    Prefetch next;
    next.add(task_.queries.x, block.first + kBlock);
    next.add(task_.out_gradient, block.first + kBlock);
    features_ = stage_both_features(task_.queries, block, walk_, tiles_);
    compute_weights(task_.weighting, magnitude_features(), block.count, task_.head.key, weights_);
    const Rows<const T> gradient = pass_tail(block, next);
    project_rows(gradient, task_.head.state_transposed,
                 {block.count, layout_.dim_pad(), layout_.value_dim}, tiles_.products, next);
    write_query_gradients(block, gradient);
    add_to_sums(block, gradient, next);
    sums_.end_block(block.count, last);
    walk_.advance(block.count);
  }

  Rows<const T> magnitude_features() const {
    return task_.weighting.rotated_magnitude() ? read_only(features_.rotated) : features_.plain;
  }

  // The gradient of the attention before the tail, and on the way those of local and gate.
  HWY_INLINE Rows<const T> pass_tail(Span block, Prefetch& next) {
    const int64_t value_pad = layout_.value_pad();
    Rows<const T> gradient = stage(task_.out_gradient, block, tiles_.values);
    const Rows<const T> local = stage(task_.local, block, tiles_.local);
    const Rows<const T> gate = stage(task_.gate, block, tiles_.gate);
    if (gate.data) {
      write_gate_gradient(block, gradient, local, next);
      const Rows<T> product{tiles_.values, value_pad};
      multiply_rows(gradient, gate, {block.count, value_pad, 0}, product);
      gradient = read_only(product);
    }
    if (local.data) {
      const Rows<T> d_local = stage_output(task_.d_local, block, tiles_.outputs);
      for (int64_t i = 0; i < block.count; ++i) {
        std::copy_n(gradient.row(i), value_pad, d_local.row(i));
      }
      unstage(d_local, block, task_.d_local);
    }
    return gradient;
  }

  // The gate's gradient needs the attention itself, which is computed again.
  HWY_INLINE void write_gate_gradient(Span block, Rows<const T> gradient, Rows<const T> local,
                                      Prefetch& next) {
    const hn::ScalableTag<T> d;
    const Rows<T> d_gate = stage_output(task_.d_gate, block, tiles_.outputs);
    compute_attention(
        features_.rotated, task_.head, weights_, {block.count, layout_.value_pad(), layout_.dim},
        [&](int64_t row, int64_t column, hn::Vec<decltype(d)> y) HWY_ATTR {
          if (local.data) y = hn::Add(y, hn::LoadU(d, local.row(row) + column));
          y = hn::Mul(y, hn::LoadU(d, gradient.row(row) + column));
          hn::StoreU(y, d, d_gate.row(row) + column);
        },
        next);
    unstage(d_gate, block, task_.d_gate);
  }

  // From the products S g_i of the block.
  HWY_INLINE void write_query_gradients(Span block, Rows<const T> gradient) {
    const int64_t dim_pad = layout_.dim_pad(), value_pad = layout_.value_pad();
    const Rows<T> products{tiles_.products, dim_pad};
    for (int64_t i = 0; i < block.count; ++i) {
      magnitude_gradient_[i] =
          weights_.product_slope[i] * dot<T>(features_.rotated.row(i), products.row(i), dim_pad) +
          weights_.mean_slope[i] * dot<T>(gradient.row(i), task_.head.value_mean, value_pad);
    }
    scale_rows(weights_.product, {block.count, dim_pad, 0}, products);
    const Rows<T> d_query = stage_output(task_.d_query, block, tiles_.d_features);
    const bool rotated = task_.weighting.rotated_magnitude();
    pull_back({task_.queries.feature,
               features_.plain,
               {block.count, dim_pad, 0},
               rotated ? nullptr : task_.head.key,
               rotated ? task_.head.key : nullptr},
              walk_, magnitude_gradient_, products, d_query);
    unstage(d_query, block, task_.d_query);
  }

  HWY_INLINE void add_to_sums(Span block, Rows<const T> gradient, Prefetch& next) {
    const int64_t dim_pad = layout_.dim_pad(), value_pad = layout_.value_pad();
    T* group = tiles_.group;
    add_weighted_rows(magnitude_features(), {block.count, dim_pad, 0}, magnitude_gradient_,
                      group + layout_.keys());
    add_weighted_rows(gradient, {block.count, value_pad, 0}, weights_.mean,
                      group + layout_.values());
    // Last, because without RoPE the rotated features are the features.
    scale_rows(weights_.product, {block.count, dim_pad, 0}, features_.rotated);
    accumulate_product(Transposed<T>{features_.rotated.data, features_.rotated.stride},
                       Right<T>{gradient.data, gradient.stride},
                       {layout_.dim, value_pad, block.count}, group + layout_.products(), next);
  }

  const QueryGradients<T>& task_;
  const Tiles<T>& tiles_;
  StateLayout layout_;
  GroupedSums<T> sums_;
  RotationWalk<T> walk_;
  Weights<T> weights_;
  Features<T> features_;
  T magnitude_gradient_[kBlock];
};

template <typename T>
void query_gradients(const QueryGradients<T>& task, const Tiles<T>& tiles) {
  QueryGradientPass<T>(task, tiles).run();
}

// As they are, or less their mean.
template <typename T>
HWY_INLINE Rows<const T> stage_values(const KeyGradients<T>& task, Span block,
                                      const Tiles<T>& tiles) {
  const hn::ScalableTag<T> d;
  const Rows<const T> values = stage(task.values, block, tiles.values);
  if (!task.terms.centred) return values;
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
  const Tokens& keys = task.keys;
  const HeadOperands<T>& head = task.head;
  const StateLayout layout{keys.x.cols, task.values.cols};
  RotationWalk<T> walk(keys);
  T ones[kBlock];
  std::fill_n(ones, kBlock, T(1));
  for_each_block(keys.span, [&](Span block, bool) HWY_ATTR {
    Prefetch next;
    next.add(keys.x, block.first + kBlock);
    next.add(task.values, block.first + kBlock);
    const Features<T> features = stage_both_features(keys, block, walk, tiles);
    project_rows(stage_values(task, block, tiles), head.d_state_transposed,
                 {block.count, layout.dim_pad(), layout.value_dim}, tiles.products, next);
    const Rows<T> d_key = stage_output(task.d_key, block, tiles.d_features);
    pull_back({keys.feature,
               features.plain,
               {block.count, layout.dim_pad(), 0},
               task.terms.plain ? head.d_key : nullptr,
               task.terms.rotated ? head.d_rotated_key : nullptr},
              walk, ones, Rows<T>{tiles.products, layout.dim_pad()}, d_key);
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
    walk.advance(block.count);
  });
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
