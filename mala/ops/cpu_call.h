// What the CPU kernels of all operators share: types, threads, scratch and the names in errors.
#pragma once

#include <ATen/Parallel.h>
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

// Calls run(T*), a null pointer that tells our name for a type that check_call let through.
template <class Run>
auto with_type(at::ScalarType type, Run&& run) {
  switch (type) {
    case at::kDouble:
      return run(static_cast<double*>(nullptr));
    case at::kBFloat16:
      return run(static_cast<BFloat16*>(nullptr));
    case at::kHalf:
      return run(static_cast<Float16*>(nullptr));
    default:
      return run(static_cast<float*>(nullptr));
  }
}

// Gives this thread the number of workers set with torch.set_num_threads: OpenMP keeps one for
// each thread that starts parallel regions, torch one for all of them.
inline void take_threads_of_torch() { at::get_num_threads(); }

// Memory from torch's allocator, for the time of a call. `bytes` asks a kernel for the size, which
// is also where it checks the call, before results are allocated.
class Scratch {
 public:
  template <class Bytes>
  explicit Scratch(const Bytes& bytes) {
    take_threads_of_torch();
    memory_ = at::empty({bytes()}, at::kByte);
  }

  std::span<std::byte> span() const { return std::as_writable_bytes(write_span<uint8_t>(memory_)); }

 private:
  at::Tensor memory_;
};

// A message of the kernels under the name of the operator, with the names of its schema.
std::string in_torch_words(const char* where, std::string_view message);

// Checks the call and calls run(T*) for the type of `x`. What the kernels refuse comes out in the
// words of the operator `where`.
template <class Call, class Run>
auto run_checked(const char* where, const Call& call, const at::Tensor& x, Run&& run) {
  check_call(call);
  try {
    return with_type(x.scalar_type(), run);
  } catch (const Error& e) {
    throw Error(in_torch_words(where, e.what()));
  }
}

}  // namespace mala::ops
