// The causal backward: a forward sweep over queries, which gives dq and each token's weights in the
// gradient of the sums, then a reverse sweep over keys.
#if defined(MALA_CPU_CAUSAL_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_BACKWARD_INL_H_
#undef MALA_CPU_CAUSAL_BACKWARD_INL_H_
#else
#define MALA_CPU_CAUSAL_BACKWARD_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/backward-inl.h"
#include "mala/kernels/cpu/causal_forward-inl.h"
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

template <typename T>
class CausalQueryGradientPass {
 public:
  CausalQueryGradientPass(const CausalQueryGradients<T>& task, const CausalTiles<T>& tiles)
      : task_(task),
        tiles_(tiles),
        keys_(task.keys, task.sums, tiles),
        layout_(keys_.layout()),
        walk_(task.queries.queries),
        size_dim_{0, layout_.dim_pad(), 0},
        size_value_{0, layout_.value_pad(), 0} {}

  void run() {
    if (task_.gradients) {
      GroupedSums<T> gradients(tiles_.other_group, task_.gradients, layout_.size());
      return sweep([&](Span block, bool last) { gradients.end_block(block.count, last); });
    }
    sweep([](Span, bool) {});
  }

 private:
  template <class EndBlock>
  HWY_INLINE void sweep(EndBlock end_block) {
    for_each_block(task_.keys.keys.span, [&](Span block, bool last) HWY_ATTR {
      run_block(block, last);
      end_block(block, last);
    });
  }

  HWY_INLINE void run_block(Span block, bool last) {
    Prefetch next;
    next.add(task_.keys.keys.x, block.first + kBlock);
    next.add(task_.keys.values, block.first + kBlock);
    next.add(task_.queries.x.first, block.first + kBlock);
    next.add(task_.out_gradient.first, block.first + kBlock);
    size_dim_.rows = size_value_.rows = block.count;
    keys_.begin_block(block);
    transpose_products(keys_.products, layout_, tiles_.transposed);
    turn_to_columns(keys_.values, keys_.count, layout_.value_dim, tiles_.value_columns);
    if (task_.queries.gate.first.data) {
      turn_to_columns(keys_.rotated, keys_.count, layout_.dim, tiles_.dim_columns);
    }
    for (int64_t member = 0; member < task_.queries.group; ++member) {
      run_member(block, member, next);
    }
    keys_.end_block(block, last, next);
    walk_.advance(block.count);
  }

  HWY_INLINE void run_member(Span block, int64_t member, Prefetch& next) {
    const Features<T> features = stage_clean_both(task_.queries.of(member), block, walk_,
                                                  tiles_.queries, tiles_.rotated_queries);
    QueryBlock<T> queries(task_.keys.weighting, keys_);
    queries.measure_plain(features.plain, block.count);
    queries.measure_rotated(read_only(features.rotated), block.count);
    queries.weigh(block.count, terms_);
    if (task_.queries.gate.first.data) write_gate_gradient(block, member, features, next);
    const Rows<const T> gradient =
        stage_gradient(task_.out_gradient.of(member), task_.queries.gate.of(member), block, tiles_);
    if (task_.queries.local.first.data) write_local_gradient(block, member, gradient);
    project_gradient(gradient, next);
    weigh_tokens(features, gradient);
    write_query_gradient(block, member, features);
    measure_from_given_centre(gradient);
    weights_.store(task_.weights + member * task_.weights_stride + block.first, block.count);
    if (!task_.gradients) return;
    const Rows<const T> weighted =
        weigh_gradient(gradient, weights_.product, size_value_, tiles_.weighted_gradient);
    add_gradient_of_sums(features, gradient, weighted, weights_, block.count, layout_,
                         tiles_.other_group, next);
  }

  // The gate's gradient needs the attention itself, which is computed again.
  HWY_INLINE void write_gate_gradient(Span block, int64_t member, const Features<T>& features,
                                      Prefetch& next) {
    compute_products(read_only(features.rotated), keys_, block.count, tiles_, tiles_.attention,
                     next);
    const Rows<T> attention{tiles_.attention, layout_.value_pad()};
    weigh_products(terms_, keys_.means, keys_.centre(), size_value_, attention);
    const Output to = task_.d_gate.of(member);
    const Rows<T> d_gate = stage_output(to, block, tiles_.outputs);
    pass_through_tail(
        read_only(attention), stage(task_.queries.local.of(member), block, tiles_.local),
        stage(task_.out_gradient.of(member), block, tiles_.gradient), size_value_, d_gate);
    unstage(d_gate, block, to);
  }

  HWY_INLINE void write_local_gradient(Span block, int64_t member, Rows<const T> gradient) {
    const Output to = task_.d_local.of(member);
    const Rows<T> d_local = stage_output(to, block, tiles_.outputs);
    for (int64_t i = 0; i < block.count; ++i) {
      std::copy_n(gradient.row(i), layout_.value_pad(), d_local.row(i));
    }
    unstage(d_local, block, to);
  }

  // d_features = S g, of the keys before the block and of those in it up to each token.
  HWY_INLINE void project_gradient(Rows<const T> gradient, Prefetch& next) {
    const int64_t count = size_dim_.rows;
    multiply(gradient, Right<T>{tiles_.transposed, layout_.dim_pad()},
             {count, layout_.dim_pad(), layout_.value_dim}, tiles_.d_features, next);
    multiply(gradient, Right<T>{tiles_.value_columns, kBlock}, {count, kBlock, layout_.value_dim},
             tiles_.scores, next);
    add_triangular<UpToDiagonal>(tiles_.scores, Right<T>{keys_.rotated.data, keys_.rotated.stride},
                                 {count, layout_.dim_pad(), keys_.count}, tiles_.d_features, next);
  }

  HWY_INLINE void weigh_tokens(const Features<T>& features, Rows<const T> gradient) {
    const bool balanced = task_.keys.weighting.norm == Norm::kBalanced;
    for (int64_t i = 0; i < size_dim_.rows; ++i) {
      const T c = keys_.c[i];
      const T by_product = c * dot<T>(features.rotated.row(i),
                                      tiles_.d_features + i * layout_.dim_pad(), layout_.dim_pad());
      const T by_mean = dot(gradient.row(i), keys_.means.row(i), layout_.value_pad());
      const T slope = balanced
                          ? terms_.gain_slope[i] * (by_product - terms_.r[i] * by_mean)
                          : terms_.gain_slope[i] * by_product - terms_.shift_slope[i] * by_mean;
      const T rotated_slope = balanced ? -terms_.gain[i] * by_mean : slope;
      weights_.product[i] = terms_.product[i];
      weights_.key[i] = task_.keys.weighting.needs_plain() ? c * slope : T(0);
      weights_.rotated_key[i] = task_.keys.weighting.needs_rotated() ? c * rotated_slope : T(0);
      weights_.value[i] = terms_.mean[i] * keys_.inverse_count[i];
    }
  }

  // The mean value in the rotated key's weight lies about the sweep's centre; the reverse sweep
  // knows only the one that was given.
  HWY_INLINE void measure_from_given_centre(Rows<const T> gradient) {
    if (!keys_.centre()) return;
    alignas(64) T moved[kMostPad];
    for (int64_t j = 0; j < layout_.value_pad(); ++j) {
      moved[j] = keys_.centre()[j] - task_.keys.centre[j];
    }
    for (int64_t i = 0; i < size_dim_.rows; ++i) {
      weights_.rotated_key[i] -=
          weights_.product[i] * dot(gradient.row(i), moved, layout_.value_pad());
    }
  }

  HWY_INLINE void write_query_gradient(Span block, int64_t member, const Features<T>& features) {
    const Rows<T> y{tiles_.d_features, layout_.dim_pad()};
    const CausalWeighting& weighting = task_.keys.weighting;
    scale_rows(weights_.product, size_dim_, y);
    if (weighting.needs_rotated()) {
      add_scaled_rows(weights_.rotated_key, keys_.rotated_key_sums, size_dim_, y);
    }
    walk_.template rotate<true>(read_only(y), y, block.count);
    if (weighting.needs_plain()) add_scaled_rows(weights_.key, keys_.key_sums, size_dim_, y);
    const Output to = task_.d_query.of(member);
    const Rows<T> d_query = stage_output(to, block, tiles_.d_tokens);
    pass_through_feature(task_.queries.queries.feature, features.plain, read_only(y), size_dim_,
                         d_query);
    unstage(d_query, block, to);
  }

  const CausalQueryGradients<T>& task_;
  const CausalTiles<T>& tiles_;
  KeySweep<T> keys_;
  StateLayout layout_;
  RotationWalk<T> walk_;
  Extent size_dim_, size_value_;
  TokenTerms<T> terms_;
  BlockWeights<T> weights_;
};

template <typename T>
void causal_query_gradients(const CausalQueryGradients<T>& task, const CausalTiles<T>& tiles) {
  CausalQueryGradientPass<T>(task, tiles).run();
}

// to += start + the rows from each to the last: what each token's key gets from the tokens that
// see it. `rows` are (count) and to (kept).
template <typename T>
HWY_INLINE void add_suffix_rows(Rows<const T> rows, int64_t count, const T* start, int64_t kept,
                                Rows<T> to) {
  const hn::ScalableTag<T> d;
  for (int64_t j = 0; j < to.stride; j += static_cast<int64_t>(hn::Lanes(d))) {
    auto sum = hn::LoadU(d, start + j);
    for (int64_t i = count - 1; i >= 0; --i) {
      sum = hn::Add(sum, hn::LoadU(d, rows.row(i) + j));
      if (i >= kept) continue;
      T* at = to.row(i) + j;
      hn::StoreU(hn::Add(hn::LoadU(d, at), sum), d, at);
    }
  }
}

template <typename T>
class CausalKeyGradientPass {
 public:
  CausalKeyGradientPass(const CausalKeyGradients<T>& task, const CausalTiles<T>& tiles)
      : task_(task),
        tiles_(tiles),
        layout_{task.keys.keys.x.cols, task.keys.values.cols},
        sums_(task.gradients, layout_.size(), tiles),
        key_walk_(task.keys.keys),
        query_walk_(task.queries.queries) {
    sums_.start_group();
  }

  void run() {
    const Span span = task_.keys.keys.span;
    for (int64_t end = span.count; end > 0;) {
      const int64_t begin = (end - 1) / kBlock * kBlock;
      run_block({span.first + begin, end - begin}, begin == 0);
      end = begin;
    }
  }

 private:
  HWY_INLINE void run_block(Span block, bool last) {
    Prefetch none;
    key_walk_.move_to(block.first);
    query_walk_.move_to(block.first);
    now_ = sums_.before_block();
    start_rows(block);
    if (kept_ > 0) stage_keys(block, none);
    for (int64_t member = 0; member < task_.queries.group; ++member) {
      run_member(block, member, none);
    }
    if (kept_ > 0) {
      write_key_gradient(block);
      write_value_gradient(block);
    }
    if (sums_.ends_group(block.count, last)) sums_.start_group();
  }

  // What each token adds to the sums of the keys, rotated keys and values: over all members.
  HWY_INLINE void start_rows(Span block) {
    kept_ = std::clamp<int64_t>(task_.keys.key_count - block.first, 0, block.count);
    std::fill_n(tiles_.key_sums, block.count * layout_.dim_pad(), T(0));
    std::fill_n(tiles_.rotated_key_sums, block.count * layout_.dim_pad(), T(0));
    std::fill_n(tiles_.means, block.count * layout_.value_pad(), T(0));
  }

  // The keys and values, and what they receive from the tokens after the block.
  HWY_INLINE void stage_keys(Span block, Prefetch& none) {
    const Span own{block.first, kept_};
    keys_ = stage_clean_both(task_.keys.keys, own, key_walk_, tiles_.keys, tiles_.rotated_keys);
    values_ = stage_centred(task_.keys.values, own, task_.keys.centre, tiles_.values);
    const T* products = now_ + layout_.products();
    transpose_products(products, layout_, tiles_.transposed);
    multiply(values_, Right<T>{tiles_.transposed, layout_.dim_pad()},
             {kept_, layout_.dim_pad(), layout_.value_dim}, tiles_.d_features, none);
    multiply(read_only(keys_.rotated), Right<T>{products, layout_.value_pad()},
             {kept_, layout_.value_pad(), layout_.dim}, tiles_.d_value, none);
  }

  HWY_INLINE void run_member(Span block, int64_t member, Prefetch& none) {
    const int64_t count = block.count, dim_pad = layout_.dim_pad(), value_pad = layout_.value_pad();
    const Features<T> queries = stage_clean_both(task_.queries.of(member), block, query_walk_,
                                                 tiles_.queries, tiles_.rotated_queries);
    const Rows<const T> gradient =
        stage_gradient(task_.out_gradient.of(member), task_.queries.gate.of(member), block, tiles_);
    BlockWeights<T> weights;
    weights.load(task_.weights + member * task_.weights_stride + block.first, count);
    const Rows<const T> weighted =
        weigh_gradient(gradient, weights.product, {count, value_pad, 0}, tiles_.weighted_gradient);
    if (kept_ > 0) add_within_block(read_only(queries.rotated), weighted, count, none);
    add_scaled_rows(weights.key, queries.plain, {count, dim_pad, 0},
                    Rows<T>{tiles_.key_sums, dim_pad});
    add_scaled_rows(weights.rotated_key, read_only(queries.rotated), {count, dim_pad, 0},
                    Rows<T>{tiles_.rotated_key_sums, dim_pad});
    add_scaled_rows(weights.value, gradient, {count, value_pad, 0},
                    Rows<T>{tiles_.means, value_pad});
    add_gradient_of_sums(queries, gradient, weighted, weights, count, layout_, sums_.group(), none);
  }

  // What the block's own queries give to its keys and values; scores lie the other way round here,
  // a row for each key.
  HWY_INLINE void add_within_block(Rows<const T> queries, Rows<const T> weighted, int64_t count,
                                   Prefetch& none) {
    turn_to_columns(weighted, count, layout_.value_dim, tiles_.value_columns);
    multiply(values_, Right<T>{tiles_.value_columns, kBlock}, {kept_, kBlock, layout_.value_dim},
             tiles_.scores, none);
    add_triangular<FromDiagonal>(tiles_.scores, Right<T>{queries.data, queries.stride},
                                 {kept_, layout_.dim_pad(), count}, tiles_.d_features, none);
    turn_to_columns(queries, count, layout_.dim, tiles_.dim_columns);
    multiply(read_only(keys_.rotated), Right<T>{tiles_.dim_columns, kBlock},
             {kept_, kBlock, layout_.dim}, tiles_.scores, none);
    add_triangular<FromDiagonal>(tiles_.scores, Right<T>{weighted.data, weighted.stride},
                                 {kept_, layout_.value_pad(), count}, tiles_.d_value, none);
  }

  HWY_INLINE void write_key_gradient(Span block) {
    const int64_t dim_pad = layout_.dim_pad();
    const Rows<T> y{tiles_.d_features, dim_pad};
    add_suffix_rows(Rows<const T>{tiles_.rotated_key_sums, dim_pad}, block.count,
                    now_ + layout_.rotated_keys(), kept_, y);
    key_walk_.template rotate<true>(read_only(y), y, kept_);
    add_suffix_rows(Rows<const T>{tiles_.key_sums, dim_pad}, block.count, now_ + layout_.keys(),
                    kept_, y);
    const Rows<T> d_key = stage_output(task_.d_key, block, tiles_.d_tokens);
    pass_through_feature(task_.keys.keys.feature, keys_.plain, read_only(y), {kept_, dim_pad, 0},
                         d_key);
    unstage(d_key, {block.first, kept_}, task_.d_key);
  }

  HWY_INLINE void write_value_gradient(Span block) {
    const int64_t value_pad = layout_.value_pad();
    add_suffix_rows(Rows<const T>{tiles_.means, value_pad}, block.count, now_ + layout_.values(),
                    kept_, Rows<T>{tiles_.d_value, value_pad});
    const Rows<T> d_value = stage_output(task_.d_value, block, tiles_.outputs);
    for (int64_t i = 0; i < kept_; ++i) {
      std::copy_n(tiles_.d_value + i * value_pad, value_pad, d_value.row(i));
    }
    unstage(d_value, {block.first, kept_}, task_.d_value);
  }

  const CausalKeyGradients<T>& task_;
  const CausalTiles<T>& tiles_;
  StateLayout layout_;
  RunningSums<T> sums_;
  RotationWalk<T> key_walk_, query_walk_;
  int64_t kept_ = 0;  // keys of the block
  const T* now_ = nullptr;
  Features<T> keys_;
  Rows<const T> values_;
};

template <typename T>
void causal_key_gradients(const CausalKeyGradients<T>& task, const CausalTiles<T>& tiles) {
  CausalKeyGradientPass<T>(task, tiles).run();
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
