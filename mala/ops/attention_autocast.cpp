// torch.ops.mala.* under torch.autocast: tensors of tokens take its narrow type, as those of
// torch's own attention do; sums and states keep theirs.
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "mala/ops/calls.h"
#include "mala/ops/flat.h"

namespace mala::ops {
namespace {

// The tensors of each call that take the narrow type.
auto token_tensors(AttentionCall& call) {
  return std::tie(call.q, call.k, call.v, call.tail.local, call.tail.gate);
}
auto token_tensors(StatelessCall& call) { return token_tensors(call.tokens); }
auto token_tensors(ChunkCall& call) { return token_tensors(call.tokens); }
auto token_tensors(TextCall& call) { return token_tensors(call.tokens); }
auto token_tensors(StepCall& call) {
  return std::tie(call.q, call.k, call.v, call.tail.local, call.tail.gate);
}
auto token_tensors(KeysCall& call) { return std::tie(call.k, call.v); }
auto token_tensors(QueriesCall& call) { return std::tie(call.q, call.tail.local, call.tail.gate); }

// Calls the same operator again, below autocast.
template <c10::DeviceType device, typename Call>
typename Call::Result narrowed(const Call& call) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const at::ScalarType narrow = at::autocast::get_autocast_dtype(device);
  Call copy = call;
  std::apply([&](auto&... x) { ((x = at::autocast::cached_cast(narrow, x, device)), ...); },
             token_tensors(copy));
  return call_operator(copy);
}

template <c10::DeviceType device>
void implement_all(torch::Library& m) {
  implement<narrowed<device, AttentionCall>>(m);
  implement<narrowed<device, StatelessCall>>(m);
  implement<narrowed<device, ChunkCall>>(m);
  implement<narrowed<device, TextCall>>(m);
  implement<narrowed<device, StepCall>>(m);
  implement<narrowed<device, KeysCall>>(m);
  implement<narrowed<device, QueriesCall>>(m);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, AutocastCPU, m) { implement_all<c10::kCPU>(m); }
TORCH_LIBRARY_IMPL(mala, AutocastCUDA, m) { implement_all<c10::kCUDA>(m); }

}  // namespace mala::ops
