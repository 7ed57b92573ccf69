// What the kernels of all operators share on every device: types, scratch and the names in errors.
#pragma once

#include <ATen/ops/empty.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "mala/core/dtypes.h"
#include "mala/core/error.h"
#include "mala/ops/attention_shapes.h"
#include "mala/ops/views.h"

namespace mala::ops {

// Calls run(T*), a null pointer that tells our name for a type that the device knows: one that
// check_call let through, but for float64.
template <class Run>
auto with_float_type(at::ScalarType type, Run&& run) {
  switch (type) {
    case at::kBFloat16:
      return run(static_cast<BFloat16*>(nullptr));
    case at::kHalf:
      return run(static_cast<Float16*>(nullptr));
    default:
      return run(static_cast<float*>(nullptr));
  }
}

// The same for all types that check_call lets through.
template <class Run>
auto with_type(at::ScalarType type, Run&& run) {
  return type == at::kDouble ? run(static_cast<double*>(nullptr)) : with_float_type(type, run);
}

// Memory from torch's allocator, on the device of `like`, for the time of a call. A kernel that is
// asked for the size checks the call, so that this comes before results are allocated.
class Scratch {
 public:
  Scratch(int64_t bytes, const at::Tensor& like)
      : memory_(at::empty({bytes}, like.options().dtype(at::kByte))) {}

  std::span<std::byte> span() const { return std::as_writable_bytes(write_span<uint8_t>(memory_)); }

 private:
  at::Tensor memory_;
};

// A message of the kernels under the name of the operator, with the names of its schema.
std::string in_torch_words(const char* where, std::string_view message);

}  // namespace mala::ops
