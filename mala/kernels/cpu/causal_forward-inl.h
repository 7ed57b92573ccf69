// The causal forward: keys go into the sums block by block, and each block's queries see the sums
// before it and the keys within it.
#if defined(MALA_CPU_CAUSAL_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_FORWARD_INL_H_
#undef MALA_CPU_CAUSAL_FORWARD_INL_H_
#else
#define MALA_CPU_CAUSAL_FORWARD_INL_H_
#endif

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_attend-inl.h"
#include "mala/kernels/cpu/causal_sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_INLINE void mean_of_rows(const Input& values, Span block, T* tile, T* mean) {
  const Rows<const T> rows = stage(values, block, tile);
  const int64_t width = padded(values.cols);
  std::fill_n(mean, width, T(0));
  add_rows(rows, {block.count, width, 0}, mean);
  for (int64_t j = 0; j < width && block.count > 0; ++j) mean[j] /= static_cast<T>(block.count);
}

// sums = those of the span's keys, which tokens after it will see: about the mean of its first
// values while they run, about the given centre in the end.
template <typename T>
void causal_sum_keys(const CausalKeys<T>& task, double* sums, const CausalTiles<T>& tiles) {
  const StateLayout layout{task.keys.x.cols, task.values.cols};
  const int64_t dim_pad = layout.dim_pad(), value_pad = layout.value_pad();
  T* group = tiles.group;
  GroupedSums<T> grouped(group, sums, layout.size());
  RotationWalk<T> walk(task.keys);
  const int64_t first = task.keys.span.first;
  const int64_t count = std::clamp<int64_t>(task.key_count - first, 0, task.keys.span.count);
  MovingCentre<T> centre(task.centre ? tiles.centre : nullptr, layout, sums);
  if (task.centre)
    mean_of_rows(task.values, {first, std::min(count, kBlock)}, tiles.values, tiles.centre);
  for_each_block({first, count}, [&](Span block, bool last) HWY_ATTR {
    Prefetch next;
    next.add(task.keys.x, block.first + kBlock);
    next.add(task.values, block.first + kBlock);
    const Rows<T> keys = stage_clean_features(task.keys, block, tiles.keys);
    const Rows<const T> values = stage_centred(task.values, block, centre.get(), tiles.values);
    add_rows(values, {block.count, value_pad, 0}, group + layout.values());
    add_rows(read_only(keys), {block.count, dim_pad, 0}, group + layout.keys());
    walk.template rotate<false>(read_only(keys), keys, block.count);
    add_rows(read_only(keys), {block.count, dim_pad, 0}, group + layout.rotated_keys());
    add_outer_products(read_only(keys), values, {layout.dim, value_pad, block.count},
                       group + layout.products(), next);
    const int64_t seen = block.first + block.count - first;
    if (grouped.end_block(block.count, last || centre.is_old(seen))) centre.move_to_mean(seen);
    walk.advance(block.count);
  });
  centre.move_to(task.centre, count);
}

// out = (attention + local) * gate.
template <typename T>
HWY_INLINE void pass_through_tail(Rows<const T> attention, Rows<const T> local, Rows<const T> gate,
                                  Extent size, Rows<T> out) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < size.rows; ++i) {
    for (int64_t j = 0; j < size.columns; j += static_cast<int64_t>(hn::Lanes(d))) {
      auto y = hn::LoadU(d, attention.row(i) + j);
      if (local.data) y = hn::Add(y, hn::LoadU(d, local.row(i) + j));
      if (gate.data) y = hn::Mul(y, hn::LoadU(d, gate.row(i) + j));
      hn::StoreU(y, d, out.row(i) + j);
    }
  }
}

template <typename T>
class CausalForwardPass {
 public:
  CausalForwardPass(const CausalForward<T>& task, const CausalTiles<T>& tiles)
      : task_(task),
        tiles_(tiles),
        keys_(task.keys, task.sums, task.wants_sums, tiles),
        walk_(task.queries.queries) {}

  void run() {
    for_each_block(task_.keys.keys.span,
                   [&](Span block, bool last) HWY_ATTR { run_block(block, last); });
  }

 private:
  HWY_INLINE void run_block(Span block, bool last) {
    Prefetch next;
    next.add(task_.keys.keys.x, block.first + kBlock);
    next.add(task_.keys.values, block.first + kBlock);
    next.add(task_.queries.x.first, block.first + kBlock);
    next.add(task_.out.first, block.first + kBlock);
    keys_.begin_block(block);
    turn_to_columns(keys_.rotated, keys_.count, keys_.layout().dim, tiles_.dim_columns);
    for (int64_t member = 0; member < task_.queries.group; ++member) {
      apply_member(block, member, next);
    }
    keys_.end_block(block, last, next);
    walk_.advance(block.count);
  }

  HWY_INLINE void apply_member(Span block, int64_t member, Prefetch& next) {
    const Extent size{block.count, keys_.layout().value_pad(), 0};
    const Rows<T> features = stage_clean_features(task_.queries.of(member), block, tiles_.queries);
    QueryBlock<T> queries(task_.keys.weighting, keys_);
    queries.measure_plain(read_only(features), block.count);
    walk_.template rotate<false>(read_only(features), features, block.count);
    compute_scores(read_only(features), keys_, block.count, tiles_, next);
    queries.measure_rotated(read_only(features), tiles_.scores, block.count);
    TokenTerms<T> terms;
    queries.weigh(block.count, terms);
    attend(read_only(features), keys_, terms, block.count, tiles_, next);
    const Rows<const T> attention{tiles_.attention, size.columns};
    const Output to = task_.out.of(member);
    const Rows<T> out = stage_output(to, block, tiles_.outputs);
    pass_through_tail(attention, stage(task_.queries.local.of(member), block, tiles_.local),
                      stage(task_.queries.gate.of(member), block, tiles_.gate), size, out);
    unstage(out, block, to);
  }

  const CausalForward<T>& task_;
  const CausalTiles<T>& tiles_;
  KeySweep<T> keys_;
  RotationWalk<T> walk_;
};

template <typename T>
void causal_forward(const CausalForward<T>& task, const CausalTiles<T>& tiles) {
  CausalForwardPass<T>(task, tiles).run();
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
