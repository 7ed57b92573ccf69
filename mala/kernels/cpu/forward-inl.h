// The two passes of the forward: keys into a state, queries through it.
#if defined(MALA_CPU_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_FORWARD_INL_H_
#undef MALA_CPU_FORWARD_INL_H_
#else
#define MALA_CPU_FORWARD_INL_H_
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

template <typename T>
void sum_keys(const SumKeys<T>& task, const Tiles<T>& tiles) {
  const Tokens& keys = task.keys;
  const StateLayout layout{keys.x.cols, task.values.cols};
  T* group = tiles.group;
  GroupedSums<T> sums(group, task.sums, layout.size());
  RotationWalk<T> walk(keys);
  for_each_block(keys.span, [&](Span block, bool last) HWY_ATTR {
    Prefetch next;
    next.add(keys.x, block.first + kBlock);
    next.add(task.values, block.first + kBlock);
    const Rows<const T> values = stage(task.values, block, tiles.values);
    const Rows<T> features = stage_features(keys, block, tiles.features);
    add_rows(values, {block.count, layout.value_pad(), 0}, group + layout.values());
    add_rows(read_only(features), {block.count, layout.dim_pad(), 0}, group + layout.keys());
    walk.template rotate<false>(read_only(features), features, block.count);
    add_rows(read_only(features), {block.count, layout.dim_pad(), 0},
             group + layout.rotated_keys());
    accumulate_product(
        Transposed<T>{features.data, features.stride}, Right<T>{values.data, values.stride},
        {layout.dim, layout.value_pad(), block.count}, group + layout.products(), next);
    sums.end_block(block.count, last);
    walk.advance(block.count);
  });
}

template <typename T>
void apply_queries(const ApplyQueries<T>& task, const Tiles<T>& tiles) {
  const hn::ScalableTag<T> d;
  const Tokens& queries = task.queries;
  const int64_t dim = queries.x.cols, value_pad = padded(task.out.cols);
  RotationWalk<T> walk(queries);
  Weights<T> weights;
  for_each_block(queries.span, [&](Span block, bool) HWY_ATTR {
    Prefetch next;
    next.add(queries.x, block.first + kBlock);
    next.add(task.out, block.first + kBlock);
    const Rows<const T> local = stage(task.local, block, tiles.local);
    const Rows<const T> gate = stage(task.gate, block, tiles.gate);
    const OutputRows<T> out(task.out, block, tiles.outputs);
    const Rows<T> features = stage_features(queries, block, tiles.features);
    const bool rotated = task.weighting.rotated_magnitude();
    auto compute = [&]() HWY_ATTR {
      compute_weights(task.weighting, read_only(features), block.count, task.head.key, weights);
    };
    if (!rotated) compute();
    walk.template rotate<false>(read_only(features), features, block.count);
    if (rotated) compute();
    compute_attention(
        features, task.head, weights, {block.count, value_pad, dim},
        [&](int64_t row, int64_t column, hn::Vec<decltype(d)> y) HWY_ATTR {
          if (local.data) y = hn::Add(y, hn::LoadU(d, local.row(row) + column));
          if (gate.data) y = hn::Mul(y, hn::LoadU(d, gate.row(row) + column));
          out.store(row, column, y);
        },
        next);
    out.finish();
    walk.advance(block.count);
  });
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
