// What both sweeps of the causal backward need: gradients, weights, and what they add to the sums.
#if defined(MALA_CPU_CAUSAL_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_GRADIENTS_INL_H_
#undef MALA_CPU_CAUSAL_GRADIENTS_INL_H_
#else
#define MALA_CPU_CAUSAL_GRADIENTS_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/backward-inl.h"
#include "mala/kernels/cpu/causal_sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// rows += the others, each times its weight.
template <typename T>
HWY_INLINE void add_scaled_rows(const T* weights, Rows<const T> others, Extent size, Rows<T> rows) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < size.rows; ++i) {
    const auto weight = hn::Set(d, weights[i]);
    for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
      T* at = rows.row(i) + j;
      hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, others.row(i) + j), hn::LoadU(d, at)), d, at);
    }
  }
}

// The gradient of a member's attention: that of its output times the gate.
template <typename T>
HWY_INLINE Rows<const T> stage_gradient(const Input& out_gradient, const Input& gate, Span block,
                                        const CausalTiles<T>& tiles) {
  const Rows<const T> gradient = stage(out_gradient, block, tiles.gradient);
  const Rows<const T> factor = stage(gate, block, tiles.gate);
  if (!factor.data) return gradient;
  const Rows<T> product{tiles.gradient, padded(out_gradient.cols)};
  multiply_rows(gradient, factor, {block.count, product.stride, 0}, product);
  return read_only(product);
}

// The features of a block and their rotated form; without RoPE both are the same memory.
template <typename T>
HWY_INLINE Features<T> stage_clean_both(const Tokens& tokens, Span block, RotationWalk<T>& walk,
                                        T* plain_tile, T* rotated_tile) {
  const Rows<T> plain = stage_clean_features(tokens, block, plain_tile);
  if (!walk.rotates()) return {read_only(plain), plain};
  const Rows<T> rotated{rotated_tile, plain.stride};
  walk.template rotate<false>(read_only(plain), rotated, block.count);
  return {read_only(plain), rotated};
}

// The weights of a block's tokens, one array for each of the four sums.
template <typename T>
struct BlockWeights {
  T product[kBlock], key[kBlock], rotated_key[kBlock], value[kBlock];

  HWY_INLINE void load(const TokenWeights<T>* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      product[i] = from[i].product, key[i] = from[i].key;
      rotated_key[i] = from[i].rotated_key, value[i] = from[i].value;
    }
  }
  HWY_INLINE void store(TokenWeights<T>* to, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) to[i] = {product[i], key[i], rotated_key[i], value[i]};
  }
};

// group += what these tokens add to the gradient of the sums. `weighted` is product * gradient.
template <typename T>
HWY_INLINE void add_gradient_of_sums(const Features<T>& features, Rows<const T> gradient,
                                     Rows<const T> weighted, const BlockWeights<T>& weights,
                                     int64_t count, const StateLayout& layout, T* group,
                                     Prefetch& meanwhile) {
  const int64_t dim_pad = layout.dim_pad(), value_pad = layout.value_pad();
  add_weighted_rows(features.plain, {count, dim_pad, 0}, weights.key, group + layout.keys());
  add_weighted_rows(read_only(features.rotated), {count, dim_pad, 0}, weights.rotated_key,
                    group + layout.rotated_keys());
  add_weighted_rows(gradient, {count, value_pad, 0}, weights.value, group + layout.values());
  add_outer_products(read_only(features.rotated), weighted, {layout.dim, value_pad, count},
                     group + layout.products(), meanwhile);
}

template <typename T>
HWY_INLINE Rows<const T> weigh_gradient(Rows<const T> gradient, const T* weights, Extent size,
                                        T* tile) {
  const hn::ScalableTag<T> d;
  const Rows<T> weighted{tile, size.columns};
  for (int64_t i = 0; i < size.rows; ++i) {
    const auto weight = hn::Set(d, weights[i]);
    for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(hn::Mul(weight, hn::LoadU(d, gradient.row(i) + j)), d, weighted.row(i) + j);
    }
  }
  return read_only(weighted);
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
