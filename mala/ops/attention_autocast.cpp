// mala::attention under torch.autocast: half types become float32, which the kernels take.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "mala/ops/attention_call.h"

namespace mala::ops {
namespace {

Tensor as_float(const Tensor& x) {
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return half ? x.to(at::kFloat) : x;
}

std::optional<Tensor> as_float(const std::optional<Tensor>& x) {
  return x ? std::optional<Tensor>(as_float(*x)) : x;
}

template <c10::DispatchKey autocast_key>
Outputs forward_autocast(const AttentionCall& call) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(autocast_key);
  AttentionCall cast = call;
  cast.q = as_float(call.q);
  cast.k = as_float(call.k);
  cast.v = as_float(call.v);
  cast.local = as_float(call.local);
  cast.gate = as_float(call.gate);
  return call_forward(cast);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, AutocastCPU, m) {
  m.impl("attention_forward",
         TORCH_FN(Flat::forward<forward_autocast<c10::DispatchKey::AutocastCPU>>));
}

TORCH_LIBRARY_IMPL(mala, AutocastCUDA, m) {
  m.impl("attention_forward",
         TORCH_FN(Flat::forward<forward_autocast<c10::DispatchKey::AutocastCUDA>>));
}

}  // namespace mala::ops
