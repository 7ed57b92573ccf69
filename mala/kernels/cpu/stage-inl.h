// From strided memory to rows of whole vectors and back. Rows that already are so are used in
// place; others go through a tile.
#if defined(MALA_CPU_STAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_STAGE_INL_H_
#undef MALA_CPU_STAGE_INL_H_
#else
#define MALA_CPU_STAGE_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/highway.h"
#include "mala/core/views.h"
#include "mala/kernels/cpu/convert-inl.h"
#include "mala/kernels/cpu/feature-inl.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/passes.h"
#include "mala/kernels/cpu/rotate-inl.h"
#include "mala/kernels/cpu/rows.h"
#include "mala/kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T, typename Void>
HWY_INLINE bool usable_in_place(const Stored<Void>& view) {
  return view.dtype == dtype_of<T>() && view.col_stride == 1 && view.cols % kPad == 0;
}

// Copies tokens between memory and tile, whose element types may differ.
template <typename From, typename To>
void copy_tokens(MatrixView<const From> from, MatrixView<To> to) {
  const bool in_rows = from.col_stride == 1 && to.col_stride == 1;
  if constexpr (std::is_same_v<From, To>) {
    if (!in_rows) return copy_transposed(from, to);
  }
  for (int64_t i = 0; i < from.rows; ++i) {
    if (in_rows) {
      convert_row(from.row(i), from.cols, to.row(i));
    } else {
      for (int64_t j = 0; j < from.cols; ++j) to.at(i, j) = round_to<To>(to_float(from.at(i, j)));
    }
  }
}

// Calls run(T*), a null pointer that tells the element type of the memory; those that T, the type
// of the arithmetic, can have.
template <typename T, class Run>
HWY_INLINE void with_stored_type(DType dtype, Run&& run) {
  if constexpr (sizeof(T) == 4) {
    if (dtype == DType::kBFloat16) return run(static_cast<BFloat16*>(nullptr));
    if (dtype == DType::kFloat16) return run(static_cast<Float16*>(nullptr));
  }
  run(static_cast<T*>(nullptr));
}

// Tokens of the view as rows; through `tile`, padded with zeros, where they cannot be used in
// place. A short block is never used in place: products round its rows up to whole tiles, and
// may not read past the view's end. A view without data has no rows.
template <typename T>
Rows<const T> stage(const Input& view, Span span, T* tile) {
  if (view.data == nullptr) return {};
  if (usable_in_place<T>(view) && span.count == kBlock) {
    return {view.as<const T>(span.first, span.count).data, view.row_stride};
  }
  const int64_t stride = padded(view.cols);
  for (int64_t i = 0; i < span.count; ++i) {
    std::fill(tile + i * stride + view.cols, tile + (i + 1) * stride, T(0));
  }
  with_stored_type<T>(view.dtype, [&](auto* type) HWY_ATTR {
    using Memory = std::remove_pointer_t<decltype(type)>;
    copy_tokens(view.as<const Memory>(span.first, span.count),
                MatrixView<T>{tile, span.count, view.cols, stride, 1});
  });
  return {tile, stride};
}

// Where to write tokens of the view: in place, or into `tile`, which unstage copies out.
template <typename T>
Rows<T> stage_output(const Output& view, Span span, T* tile) {
  if (view.data == nullptr) return {};
  if (usable_in_place<T>(view)) return {view.as<T>(span.first, 0).data, view.row_stride};
  return {tile, padded(view.cols)};
}

template <typename T>
void unstage(Rows<T> rows, Span span, const Output& view) {
  if (view.data == nullptr || usable_in_place<T>(view)) return;
  with_stored_type<T>(view.dtype, [&](auto* type) HWY_ATTR {
    using Memory = std::remove_pointer_t<decltype(type)>;
    copy_tokens(MatrixView<const T>{rows.data, span.count, view.cols, rows.stride, 1},
                view.as<Memory>(span.first, span.count));
  });
}

// Where a product writes its vectors: rows as stage_output gives them, or straight to bfloat16 in
// memory, which spares a walk over the tile.
template <typename T>
class OutputRows {
 public:
  HWY_INLINE OutputRows(const Output& view, Span span, T* tile) : view_(view), span_(span) {
    if (sizeof(T) == 4 && view.dtype == DType::kBFloat16 && view.col_stride == 1 &&
        view.cols % kPad == 0) {
      narrow_ = {view.as<BFloat16>(span.first, span.count).data, view.row_stride};
    } else {
      rows_ = stage_output(view, span, tile);
    }
  }

  template <class V>
  HWY_INLINE void store(int64_t row, int64_t column, V x) const {
    const hn::ScalableTag<T> d;
    if constexpr (sizeof(T) == 4) {
      if (narrow_.data) return store_rounded(d, x, narrow_.row(row) + column);
    }
    hn::StoreU(x, d, rows_.row(row) + column);
  }

  // To be called when all is stored.
  HWY_INLINE void finish() const {
    if (!narrow_.data) unstage(rows_, span_, view_);
  }

 private:
  const Output& view_;
  Span span_;
  Rows<T> rows_;
  Rows<BFloat16> narrow_;
};

template <typename Memory, typename T>
HWY_INLINE void compute_features(Feature feature_map, Rows<const Memory> x, int64_t count,
                                 Rows<T> to) {
  const hn::ScalableTag<T> d;
  with_feature(feature_map, [&](auto map) HWY_ATTR {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < to.stride; j += static_cast<int64_t>(hn::Lanes(d))) {
        const auto phi = feature<decltype(map)::value>(d, load_as_float(d, x.row(i) + j));
        hn::StoreU(phi, d, to.row(i) + j);
      }
    }
  });
}

// phi of the block's queries or keys, straight from memory where their rows are whole vectors.
template <typename T>
HWY_NOINLINE Rows<T> stage_features(const Tokens& tokens, Span span, T* tile) {
  const Input& x = tokens.x;
  const Rows<T> features{tile, padded(x.cols)};
  if (x.col_stride != 1 || x.cols % kPad != 0) {
    compute_features(tokens.feature, stage(x, span, tile), span.count, features);
    return features;
  }
  with_stored_type<T>(x.dtype, [&](auto* type) HWY_ATTR {
    using Memory = std::remove_pointer_t<decltype(type)>;
    const Rows<const Memory> rows{x.as<const Memory>(span.first, span.count).data, x.row_stride};
    compute_features(tokens.feature, rows, span.count, features);
  });
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
HWY_INLINE Features<T> stage_both_features(const Tokens& tokens, Span span, RotationWalk<T>& walk,
                                           const Tiles<T>& tiles) {
  const Rows<T> plain = stage_features(tokens, span, tiles.features);
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
