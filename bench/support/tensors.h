// Torch tensors as the kernels see them: views of their memory, and its types.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "mala/core/dtypes.h"
#include "mala/core/views.h"

namespace mala::bench {

inline at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kFloat32:
      break;
  }
  return at::kFloat;
}

// Calls run with a value of the type that tensors of this dtype hold.
template <typename Run>
auto with_type(DType dtype, const Run& run) {
  switch (dtype) {
    case DType::kBFloat16:
      return run(BFloat16{});
    case DType::kFloat16:
      return run(Float16{});
    case DType::kFloat64:
      return run(double{});
    case DType::kFloat32:
      break;
  }
  return run(float{});
}

// A tensor (B, H, N, D) of any strides.
template <typename T>
HeadsView<T> view(const at::Tensor& x) {
  return {reinterpret_cast<T*>(x.data_ptr()),
          x.size(0),
          x.size(1),
          x.size(2),
          x.size(3),
          x.stride(0),
          x.stride(1),
          x.stride(2),
          x.stride(3)};
}

// All of a dense tensor's memory.
template <typename T>
std::span<T> elements(const at::Tensor& x) {
  return {reinterpret_cast<T*>(x.data_ptr()), x.nbytes() / sizeof(T)};
}

}  // namespace mala::bench
