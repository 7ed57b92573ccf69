// How the operators call the kernels of the CPU.
#pragma once

#include <ATen/Parallel.h>

#include "mala/ops/kernel_call.h"

namespace mala::ops {

// Gives this thread the number of workers set with torch.set_num_threads: OpenMP keeps one for
// each thread that starts parallel regions, torch one for all of them.
inline void take_threads_of_torch() { at::get_num_threads(); }

// Checks the call and calls run(T*) for the type of `x`. What the kernels refuse comes out in the
// words of the operator `where`.
template <class Call, class Run>
auto run_on_cpu(const char* where, const Call& call, const at::Tensor& x, Run&& run) {
  check_call(call);
  take_threads_of_torch();
  try {
    return with_type(x.scalar_type(), run);
  } catch (const Error& e) {
    throw Error(in_torch_words(where, e.what()));
  }
}

}  // namespace mala::ops
