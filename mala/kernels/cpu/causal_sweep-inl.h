// What the causal sweeps share: sums that run along, and a block's keys with the sums that each of
// its tokens sees.
#if defined(MALA_CPU_CAUSAL_SWEEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_SWEEP_INL_H_
#undef MALA_CPU_CAUSAL_SWEEP_INL_H_
#else
#define MALA_CPU_CAUSAL_SWEEP_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/matmul-inl.h"
#include "mala/kernels/cpu/moving_centre.h"
#include "mala/kernels/cpu/rows-inl.h"
#include "mala/kernels/cpu/stage-inl.h"
#include "mala/kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The products of the sweeps, each compiled once. to (rows, columns) = left * right.
template <typename T>
HWY_NOINLINE void multiply(Rows<const T> left, Right<T> right, Extent size, T* to,
                           Prefetch& meanwhile) {
  const hn::ScalableTag<T> d;
  compute_product<T>(
      Plain<T>{left.data, left.stride}, right, size,
      [=](int64_t row, int64_t column, hn::Vec<decltype(d)> product)
          HWY_ATTR { hn::StoreU(product, d, to + row * size.columns + column); },
      meanwhile);
}

// to += left * right, where the left operand is (kBlock, kBlock) and one side of its diagonal
// counts.
template <class Depth, typename T>
HWY_NOINLINE void add_triangular(const T* left, Right<T> right, Extent size, T* to,
                                 Prefetch& meanwhile) {
  accumulate_product<T, Depth>(Plain<T>{left, kBlock}, right, size, to, meanwhile);
}

// to += left^T * right, over `size.depth` tokens.
template <typename T>
HWY_NOINLINE void add_outer_products(Rows<const T> left, Rows<const T> right, Extent size, T* to,
                                     Prefetch& meanwhile) {
  accumulate_product(Transposed<T>{left.data, left.stride}, Right<T>{right.data, right.stride},
                     size, to, meanwhile);
}

// Tokens side by side: to (columns, kBlock) = rows^T.
template <typename T>
HWY_INLINE void turn_to_columns(Rows<const T> rows, int64_t count, int64_t columns, T* to) {
  copy_transposed(MatrixView<const T>{rows.data, count, columns, rows.stride, 1},
                  MatrixView<T>{to, count, columns, 1, kBlock});
}

// to (E, D) = from (D, E), both padded with zeros.
template <typename T>
HWY_INLINE void transpose_products(const T* from, const StateLayout& layout, T* to) {
  const int64_t dim_pad = layout.dim_pad();
  copy_transposed(MatrixView<const T>{from, layout.dim, layout.value_dim, layout.value_pad(), 1},
                  MatrixView<T>{to, layout.dim, layout.value_dim, 1, dim_pad});
  for (int64_t j = 0; dim_pad > layout.dim && j < layout.value_dim; ++j) {
    std::fill(to + j * dim_pad + layout.dim, to + (j + 1) * dim_pad, T(0));
  }
}

// phi takes padding to what it takes zero to; sums over features must not see that.
template <typename T>
HWY_INLINE Rows<T> stage_clean_features(const Tokens& tokens, Span block, T* tile) {
  const Rows<T> features = stage_features(tokens, block, tile);
  for (int64_t i = 0; tokens.x.cols < features.stride && i < block.count; ++i) {
    std::fill(features.row(i) + tokens.x.cols, features.row(i + 1), T(0));
  }
  return features;
}

template <typename T>
HWY_INLINE Rows<const T> stage_centred(const Input& values, Span block, const T* centre, T* tile) {
  const hn::ScalableTag<T> d;
  const Rows<const T> staged = stage(values, block, tile);
  if (centre == nullptr) return staged;
  const Rows<T> centred{tile, padded(values.cols)};
  for (int64_t i = 0; i < block.count; ++i) {
    for (int64_t j = 0; j < centred.stride; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto value = hn::LoadU(d, staged.row(i) + j);
      hn::StoreU(hn::Sub(value, hn::LoadU(d, centre + j)), d, centred.row(i) + j);
    }
  }
  return read_only(centred);
}

// Sums that are read as they stand before each block: in T within a group of tokens, in double
// from group to group. So a million tokens lose no more digits than a group does.
template <typename T>
class RunningSums {
 public:
  // From `sums` on, which hold those after the last block in the end.
  RunningSums(double* sums, int64_t size, const CausalTiles<T>& tiles, int64_t group = kGroup)
      : sums_(sums),
        size_(size),
        group_tokens_(group),
        base_(tiles.base),
        group_(tiles.group),
        now_(tiles.now) {}

  // What later blocks will see: to be added to.
  T* group() const { return group_; }

  HWY_INLINE const T* before_block() {
    const hn::ScalableTag<T> d;
    for (int64_t i = 0; i < size_; i += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(hn::Add(hn::LoadU(d, base_ + i), hn::LoadU(d, group_ + i)), d, now_ + i);
    }
    return now_;
  }

  // to = row * (the columns of) products + values, as they stand before the block, in double.
  HWY_INLINE void multiply_row(const T* row, const StateLayout& layout, T* to) const {
    constexpr int64_t kColumns = kPad;
    for (int64_t first = 0; first < layout.value_pad(); first += kColumns) {
      double sum[kColumns];
      const auto add = [&](double factor, int64_t at) {
        for (int64_t j = 0; j < kColumns; ++j) {
          sum[j] += factor * (sums_[at + j] + static_cast<double>(group_[at + j]));
        }
      };
      std::fill_n(sum, kColumns, 0.0);
      add(1, layout.values() + first);
      for (int64_t i = 0; i < layout.dim; ++i) {
        add(row[i], layout.products() + i * layout.value_pad() + first);
      }
      for (int64_t j = 0; j < kColumns; ++j) to[first + j] = static_cast<T>(sum[j]);
    }
  }

  // Whether a group ended: then all is in the sums in double, which may be changed before the next
  // group starts.
  bool ends_group(int64_t count, bool last) {
    tokens_ += count;
    if (tokens_ < group_tokens_ && !last) return false;
    for (int64_t i = 0; i < size_; ++i) sums_[i] += static_cast<double>(group_[i]);
    return true;
  }

  void start_group() {
    for (int64_t i = 0; i < size_; ++i) base_[i] = static_cast<T>(sums_[i]);
    std::fill_n(group_, size_, T(0));
    tokens_ = 0;
  }

 private:
  double* sums_;
  int64_t size_, group_tokens_, tokens_ = 0;
  T *base_, *group_, *now_;
};

// sums[i] = start + rows 0 to i, each row of the sums in its own place; rows from `count` on repeat
// the last.
template <typename T>
HWY_INLINE void prefix_rows(Rows<const T> rows, int64_t count, const T* start, int64_t all,
                            Rows<T> sums) {
  const hn::ScalableTag<T> d;
  for (int64_t j = 0; j < sums.stride; j += static_cast<int64_t>(hn::Lanes(d))) {
    auto sum = hn::LoadU(d, start + j);
    for (int64_t i = 0; i < all; ++i) {
      if (i < count) sum = hn::Add(sum, hn::LoadU(d, rows.row(i) + j));
      hn::StoreU(sum, d, sums.row(i) + j);
    }
  }
}

// The keys of one block after the other.
template <typename T>
class KeySweep {
 public:
  // Nothing reads the last block's share of the sums unless those after it are wanted.
  KeySweep(const CausalKeys<T>& task, double* sums, bool wants_sums, const CausalTiles<T>& tiles)
      : task_(task),
        tiles_(tiles),
        layout_{task.keys.x.cols, task.values.cols},
        centre_(task.centre ? tiles.centre : nullptr, layout_, sums),
        sums_(sums, layout_.size(), tiles),
        wants_sums_(wants_sums),
        walk_(task.keys) {
    start_centre();
    sums_.start_group();
  }

  const StateLayout& layout() const { return layout_; }
  const T* centre() const { return centre_.get(); }

  // What the block's queries read: its keys, rotated, its values, the products S before it, and for
  // each token the sums and the mean that it sees.
  int64_t count = 0;  // keys
  Rows<const T> rotated = {}, values = {}, key_sums = {}, rotated_key_sums = {}, means = {};
  const T *products = nullptr, *rotated_keys_before = nullptr, *values_before = nullptr;
  T c[kBlock] = {}, inverse_count[kBlock] = {};

  HWY_INLINE void begin_block(Span block) {
    count = std::clamp<int64_t>(task_.key_count - block.first, 0, block.count);
    const T* now = sums_.before_block();
    products = now + layout_.products();
    rotated_keys_before = now + layout_.rotated_keys();
    values_before = now + layout_.values();
    const Span own{block.first, count};
    const Rows<T> keys = stage_clean_features(task_.keys, own, tiles_.keys);
    values = stage_centred(task_.values, own, centre(), tiles_.values);
    key_sums =
        prefix(read_only(keys), now + layout_.keys(), block, {tiles_.key_sums, layout_.dim_pad()});
    add_rows(read_only(keys), {count, layout_.dim_pad(), 0}, sums_.group() + layout_.keys());
    walk_.template rotate<false>(read_only(keys), keys, count);
    rotated = read_only(keys);
    if (task_.weighting.needs_rotated()) {
      rotated_key_sums = prefix(rotated, now + layout_.rotated_keys(), block,
                                {tiles_.rotated_key_sums, layout_.dim_pad()});
    }
    means = prefix(values, now + layout_.values(), block, {tiles_.means, layout_.value_pad()});
    count_keys(block);
    scale_rows(inverse_count, {block.count, layout_.value_pad(), 0},
               Rows<T>{tiles_.means, layout_.value_pad()});
  }

  HWY_INLINE void end_block(Span block, bool last, Prefetch& meanwhile) {
    if (last && !wants_sums_) return;
    T* group = sums_.group();
    if (begins_text(block)) centre_first_values(block);
    add_rows(rotated, {count, layout_.dim_pad(), 0}, group + layout_.rotated_keys());
    add_rows(values, {count, layout_.value_pad(), 0}, group + layout_.values());
    add_outer_products(rotated, values, {layout_.dim, layout_.value_pad(), count},
                       group + layout_.products(), meanwhile);
    walk_.advance(block.count);
    const int64_t seen = keys_up_to(block.first + block.count);
    if (!sums_.ends_group(block.count, last || centre_.is_old(seen))) return;
    if (last) {
      centre_.move_to(task_.centre, seen);
    } else {
      centre_.move_to_mean(seen);
    }
    sums_.start_group();
  }

 private:
  int64_t keys_up_to(int64_t token) const {
    return task_.keys.earlier + std::min(token, task_.key_count);
  }

  // Whether the values have a centre and none of them came before.
  bool begins_text(Span block) const { return task_.centre && keys_up_to(block.first) == 0; }

  // The mean so far; a text begins about zero, since its first tokens may not see the later values
  // that a better centre would need: what is wrong with one stays with the tokens that see it.
  void start_centre() {
    if (!task_.centre) return;
    std::copy_n(task_.centre, layout_.value_pad(), tiles_.centre);
    centre_.move_to_mean(keys_up_to(task_.keys.span.first));
  }

  // The tokens after the first block see all of it: for them its sums are taken about its mean,
  // which costs nothing, as sums of nothing lie about any centre.
  HWY_INLINE void centre_first_values(Span block) {
    alignas(64) T sum[kMostPad] = {};
    add_rows(values, {count, layout_.value_pad(), 0}, sum);
    for (int64_t j = 0; j < layout_.value_dim; ++j) {
      tiles_.centre[j] += sum[j] / static_cast<T>(count);
    }
    centre_.is_mean_of(count);
    values = stage_centred(task_.values, {block.first, count}, centre(), tiles_.values);
  }

  HWY_INLINE Rows<const T> prefix(Rows<const T> rows, const T* start, Span block, Rows<T> sums) {
    prefix_rows(rows, count, start, block.count, sums);
    return read_only(sums);
  }

  HWY_INLINE void count_keys(Span block) {
    for (int64_t i = 0; i < block.count; ++i) {
      const double inverse = 1.0 / static_cast<double>(keys_up_to(block.first + i + 1));
      inverse_count[i] = static_cast<T>(inverse);
      const double kappa = task_.weighting.key_mean ? inverse : 1.0;
      c[i] = static_cast<T>(task_.weighting.scale * kappa);
    }
  }

  const CausalKeys<T>& task_;
  const CausalTiles<T>& tiles_;
  StateLayout layout_;
  MovingCentre<T> centre_;
  RunningSums<T> sums_;
  bool wants_sums_;
  RotationWalk<T> walk_;
};

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
