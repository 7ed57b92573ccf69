// How the operators call the kernels of a GPU.
#include "mala/ops/cuda_call.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace mala::ops {

void check_gpu_type(const char* where, const at::Tensor& x) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      x.scalar_type() != at::kDouble, "[", where, "] the tensors are Double on ", x.device(),
      "; GPUs know float32, bfloat16 and float16: call .float() on them, or .cpu() to compute in ",
      "float64");
}

void* current_stream(const at::Tensor& x) {
  return c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device()).native_handle();
}

std::string circumstances(const at::Tensor& x) {
  return c10::str("the call had tokens of sizes ", x.sizes(), ", ", x.scalar_type(), " on ",
                  x.device());
}

}  // namespace mala::ops
