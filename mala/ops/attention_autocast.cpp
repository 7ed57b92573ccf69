// mala::attention under torch.autocast: tensors take its narrow type, as those of torch's own
// attention do; sums stay in float32.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "mala/ops/attention_call.h"

namespace mala::ops {
namespace {

template <c10::DeviceType device>
Outputs forward_autocast(const AttentionCall& call) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const at::ScalarType narrow = at::autocast::get_autocast_dtype(device);
  auto cast = [&](const auto& x) { return at::autocast::cached_cast(narrow, x, device); };
  AttentionCall narrowed = call;
  narrowed.q = cast(call.q);
  narrowed.k = cast(call.k);
  narrowed.v = cast(call.v);
  narrowed.local = cast(call.local);
  narrowed.gate = cast(call.gate);
  return call_forward(narrowed);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, AutocastCPU, m) {
  m.impl("attention_forward", TORCH_FN(Flat::forward<forward_autocast<c10::kCPU>>));
}

TORCH_LIBRARY_IMPL(mala, AutocastCUDA, m) {
  m.impl("attention_forward", TORCH_FN(Flat::forward<forward_autocast<c10::kCUDA>>));
}

}  // namespace mala::ops
