// Our kernels without torch's allocator and autograd: what the operator adds to them is seen by
// timing both.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "bench/support/case.h"

namespace mala::bench {

// A call that writes into the same memory each time and returns it: out (B, H, N, D), and with
// the backward pass the gradients of q, k and v. The tensors are dense float32.
std::function<std::vector<at::Tensor>()> raw_kernel_call(const std::vector<at::Tensor>& qkv,
                                                         const at::Tensor& out_gradient, Pass pass);

}  // namespace mala::bench
