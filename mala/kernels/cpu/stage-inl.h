// From strided memory to rows of whole vectors and back. Rows that already are so are used in
// place; others go through a tile.
#if defined(MALA_CPU_STAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_STAGE_INL_H_
#undef MALA_CPU_STAGE_INL_H_
#else
#define MALA_CPU_STAGE_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "mala/core/views.h"
#include "mala/kernels/cpu/feature-inl.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/rotate-inl.h"
#include "mala/kernels/cpu/rows.h"
#include "mala/kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_INLINE MatrixView<const T> read_only(const MatrixView<T>& view) {
  return {view.data, view.rows, view.cols, view.row_stride, view.col_stride};
}

template <typename T>
HWY_INLINE bool usable_in_place(const MatrixView<T>& view) {
  return view.col_stride == 1 && view.cols % kPad == 0;
}

template <typename T>
void copy_tokens(MatrixView<const T> from, MatrixView<T> to) {
  if (from.col_stride != 1 || to.col_stride != 1) return copy_transposed(from, to);
  for (int64_t i = 0; i < from.rows; ++i) std::copy_n(from.row(i), from.cols, to.row(i));
}

// Tokens of the view as rows; through `tile`, padded with zeros, where they cannot be used in
// place. A short block is never used in place: products round its rows up to whole tiles, and
// may not read past the view's end. A view without data has no rows.
template <typename T>
Rows<const T> stage(const MatrixView<const T>& view, Span span, T* tile) {
  if (view.data == nullptr) return {};
  const T* from = view.row(span.first);
  if (usable_in_place(view) && span.count == kBlock) return {from, view.row_stride};
  const int64_t stride = padded(view.cols);
  for (int64_t i = 0; i < span.count; ++i) {
    std::fill(tile + i * stride + view.cols, tile + (i + 1) * stride, T(0));
  }
  copy_tokens<T>({from, span.count, view.cols, view.row_stride, view.col_stride},
                 {tile, span.count, view.cols, stride, 1});
  return {tile, stride};
}

// Where to write tokens of the view: in place, or into `tile`, which unstage copies out.
template <typename T>
Rows<T> stage_output(const MatrixView<T>& view, Span span, T* tile) {
  if (view.data == nullptr) return {};
  if (usable_in_place(view)) return {view.row(span.first), view.row_stride};
  return {tile, padded(view.cols)};
}

template <typename T>
void unstage(Rows<T> rows, Span span, const MatrixView<T>& view) {
  if (view.data == nullptr || usable_in_place(view)) return;
  copy_tokens<T>({rows.data, span.count, view.cols, rows.stride, 1},
                 {view.row(span.first), span.count, view.cols, view.row_stride, view.col_stride});
}

template <typename T>
HWY_INLINE void compute_features(Feature feature_map, Rows<const T> x, int64_t count, Rows<T> to) {
  const hn::ScalableTag<T> d;
  with_feature(feature_map, [&](auto map) HWY_ATTR {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < to.stride; j += static_cast<int64_t>(hn::Lanes(d))) {
        const auto phi = feature<decltype(map)::value>(d, hn::LoadU(d, x.row(i) + j));
        hn::StoreU(phi, d, to.row(i) + j);
      }
    }
  });
}

// phi of the block's queries or keys.
template <typename T>
HWY_INLINE Rows<T> stage_features(const Tokens<T>& tokens, Span span, const Tiles<T>& tiles) {
  const Rows<T> features{tiles.features, padded(tokens.x.cols)};
  compute_features(tokens.feature, stage(tokens.x, span, tiles.raw), span.count, features);
  return features;
}

// For the backward, which needs a block's features and their rotated form. Without RoPE both are
// the same memory.
template <typename T>
struct Features {
  Rows<const T> plain;
  Rows<T> rotated;
};

template <typename T>
HWY_INLINE Features<T> stage_both_features(const Tokens<T>& tokens, Span span,
                                           RotationWalk<T>& walk, const Tiles<T>& tiles) {
  const Rows<T> plain = stage_features(tokens, span, tiles);
  if (!walk.rotates()) return {read_only(plain), plain};
  const Rows<T> rotated{tiles.rotated, plain.stride};
  walk.template rotate<false>(read_only(plain), rotated, span.count);
  return {read_only(plain), rotated};
}

// body(block, last) for each block of up to kBlock tokens of the span.
template <class Body>
HWY_INLINE void for_each_block(Span span, Body&& body) {
  for (int64_t done = 0; done < span.count; done += kBlock) {
    const int64_t count = std::min(kBlock, span.count - done);
    body(Span{span.first + done, count}, done + count == span.count);
  }
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
