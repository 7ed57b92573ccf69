// The causal backward's reverse sweep, over keys: dk and dv, with the gradient of the sums running
// along.
#if defined(MALA_CPU_CAUSAL_KEY_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_KEY_GRADIENTS_INL_H_
#undef MALA_CPU_CAUSAL_KEY_GRADIENTS_INL_H_
#else
#define MALA_CPU_CAUSAL_KEY_GRADIENTS_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

// mean = that of the rows, and to = the rows about it.
template <typename T>
HWY_INLINE Rows<const T> centre_rows(Rows<const T> rows, int64_t count, T* mean, Rows<T> to) {
  const hn::ScalableTag<T> d;
  const auto share = hn::Set(d, T(1) / static_cast<T>(count));
  for (int64_t j = 0; j < to.stride; j += static_cast<int64_t>(hn::Lanes(d))) {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < count; ++i) sum = hn::Add(sum, hn::LoadU(d, rows.row(i) + j));
    const auto centre = hn::Mul(sum, share);
    hn::StoreU(centre, d, mean + j);
    for (int64_t i = 0; i < count; ++i) {
      hn::StoreU(hn::Sub(hn::LoadU(d, rows.row(i) + j), centre), d, to.row(i) + j);
    }
  }
  return read_only(to);
}

template <typename T>
class CausalKeyGradientPass {
 public:
  CausalKeyGradientPass(const CausalKeyGradients<T>& task, const CausalTiles<T>& tiles)
      : task_(task),
        tiles_(tiles),
        layout_{task.keys.keys.x.cols, task.keys.values.cols},
        sums_(task.gradients, layout_.size(), tiles, kBlock),
        key_walk_(task.keys.keys),
        query_walk_(task.queries.queries) {
    sums_.start_group();
  }

  // Backwards. A value's gradient is what is left of large sums, so that here every block is a
  // group.
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
    // What keys have in common is multiplied in double; digits of T are enough for the rest.
    const Rows<const T> about_mean = centre_rows(read_only(keys_.rotated), kept_, tiles_.mean_key,
                                                 Rows<T>{tiles_.dim_columns, layout_.dim_pad()});
    sums_.multiply_row(tiles_.mean_key, layout_, tiles_.value_row);
    multiply(about_mean, Right<T>{products, layout_.value_pad()},
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
    add_suffix_rows(Rows<const T>{tiles_.means, value_pad}, block.count, tiles_.value_row, kept_,
                    Rows<T>{tiles_.d_value, value_pad});
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
