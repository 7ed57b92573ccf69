// Tensors as the views that kernels read and write: strides, not copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>

#include "mala/core/views.h"

namespace mala::ops {

// x (B, H, N, D) with any strides, also zero ones.
template <typename T>
HeadsView<T> view_at(T* data, const at::Tensor& x) {
  return {data,        x.size(0),   x.size(1),   x.size(2),  x.size(3),
          x.stride(0), x.stride(1), x.stride(2), x.stride(3)};
}

// T is our name for the tensor's type, so the data comes without one.
template <typename T>
HeadsView<const T> read_view(const at::Tensor& x) {
  return view_at(static_cast<const T*>(x.const_data_ptr()), x);
}

// No data where the tensor is absent.
template <typename T>
HeadsView<const T> read_view(const std::optional<at::Tensor>& x) {
  return x ? read_view<T>(*x) : HeadsView<const T>{};
}

template <typename T>
HeadsView<T> write_view(const at::Tensor& x) {
  return view_at(static_cast<T*>(x.mutable_data_ptr()), x);
}

// All elements of a contiguous tensor.
template <typename T>
std::span<const T> read_span(const at::Tensor& x) {
  return {x.const_data_ptr<T>(), static_cast<size_t>(x.numel())};
}

template <typename T>
std::span<T> write_span(const at::Tensor& x) {
  return {x.mutable_data_ptr<T>(), static_cast<size_t>(x.numel())};
}

}  // namespace mala::ops
