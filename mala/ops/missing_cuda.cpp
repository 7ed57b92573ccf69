// The operators that have no kernels for GPUs yet: each says what works in its place. One that gets
// kernels leaves this file.
#include "mala/ops/attention_shapes.h"
#include "mala/ops/flat.h"

namespace mala::ops {
namespace {

constexpr const char* kHalves = "attention with all tokens on one device";

// `x` is the first tensor of the call, `instead` what GPUs do have.
template <typename Call>
typename Call::Result refuse(const Call& call, const Tensor& x, const char* instead) {
  check_call(call);  // such as tensors on several devices
  TORCH_CHECK_NOT_IMPLEMENTED(false, "[mala::", Call::kName, "] the tensors are ", x.scalar_type(),
                              " on ", x.device(), "; this form runs on the CPU alone so far: call ",
                              ".cpu() on them, or use ", instead);
}

Tensor keys(const KeysCall& call) { return refuse(call, call.k, kHalves); }
KeysGradients keys_backward(const KeysBackwardCall& call) {
  return refuse(call, call.forward.k, kHalves);
}
Tensor queries(const QueriesCall& call) { return refuse(call, call.q, kHalves); }
QueriesGradients queries_backward(const QueriesBackwardCall& call) {
  return refuse(call, call.forward.q, kHalves);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, CUDA, m) {
  implement<keys>(m);
  implement<keys_backward>(m);
  implement<queries>(m);
  implement<queries_backward>(m);
}

}  // namespace mala::ops
