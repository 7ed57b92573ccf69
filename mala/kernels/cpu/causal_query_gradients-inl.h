// The causal backward's forward sweep, over queries: dq and each token's weights in the gradient of
// the sums.
#if defined(MALA_CPU_CAUSAL_QUERY_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_QUERY_GRADIENTS_INL_H_
#undef MALA_CPU_CAUSAL_QUERY_GRADIENTS_INL_H_
#else
#define MALA_CPU_CAUSAL_QUERY_GRADIENTS_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_forward-inl.h"
#include "mala/kernels/cpu/causal_gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
class CausalQueryGradientPass {
 public:
  CausalQueryGradientPass(const CausalQueryGradients<T>& task, const CausalTiles<T>& tiles)
      : task_(task),
        tiles_(tiles),
        keys_(task.keys, task.sums, false, tiles),
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
    if (task_.queries.gate.first.data) {
      compute_scores(read_only(features.rotated), keys_, block.count, tiles_, next);
      queries.measure_rotated(read_only(features.rotated), tiles_.scores, block.count);
    } else {
      queries.measure_rotated(read_only(features.rotated), block.count);
    }
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
    attend(read_only(features.rotated), keys_, terms_, block.count, tiles_, next);
    const Rows<const T> attention{tiles_.attention, layout_.value_pad()};
    const Output to = task_.d_gate.of(member);
    const Rows<T> d_gate = stage_output(to, block, tiles_.outputs);
    pass_through_tail(attention, stage(task_.queries.local.of(member), block, tiles_.local),
                      stage(task_.out_gradient.of(member), block, tiles_.gradient), size_value_,
                      d_gate);
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

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
