// How the operators call the kernels of a GPU: on the device of the tensors and its current stream,
// which torch hands out as a plain pointer, so that no CUDA types are needed.
#pragma once

#include <c10/core/DeviceGuard.h>

#include "mala/ops/kernel_call.h"

namespace mala::ops {

// Throws unless the kernels of GPUs know the type of `x`.
void check_gpu_type(const char* where, const at::Tensor& x);

// The cudaStream_t that torch works on now, on the device of `x`.
void* current_stream(const at::Tensor& x);

// Sizes, type and device of the call's tokens, which errors of the device itself and of checks
// lack.
std::string circumstances(const at::Tensor& x);

// Checks the call and calls run(T*, stream) for the type of `x`, with its device as the current
// one. What the kernels refuse comes out in the words of the operator `where`.
template <class Call, class Run>
auto run_on_gpu(const char* where, const Call& call, const at::Tensor& x, Run&& run) {
  try {
    check_call(call);
    check_gpu_type(where, x);
    const c10::DeviceGuard guard(x.device());
    return with_float_type(x.scalar_type(),
                           [&]<typename T>(T* type) { return run(type, current_stream(x)); });
  } catch (const Error& e) {
    throw Error(mala::str(in_torch_words(where, e.what()), "; ", circumstances(x)));
  } catch (c10::OutOfMemoryError& e) {
    e.add_context(mala::str("[", where, "] memory ran out; ", circumstances(x)));
    throw;
  } catch (c10::Error& e) {
    e.add_context(circumstances(x));
    throw;
  }
}

}  // namespace mala::ops
