// torch.ops.mala.* for tensors without memory: the sizes and strides of the results, for
// torch.compile, export and the meta device. Sizes may be symbols.
#include "mala/ops/attention_shapes.h"
#include "mala/ops/flat.h"
#include "mala/ops/sizes.h"

namespace mala::ops {
namespace {

template <typename Call>
typename Call::Result forward_meta(const Call& call) {
  check_call(call);
  check_sizes(call);
  return new_outputs(call);
}

template <typename Call>
typename Call::Result backward_meta(const Call& call) {
  check_call(call);
  check_sizes(call.forward);
  return new_gradients(call.forward);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, Meta, m) {
  implement<forward_meta<AttentionCall>>(m);
  implement<forward_meta<StatelessCall>>(m);
  implement<backward_meta<BackwardCall>>(m);
  implement<forward_meta<ChunkCall>>(m);
  implement<forward_meta<TextCall>>(m);
  implement<backward_meta<ChunkBackwardCall>>(m);
  implement<forward_meta<StepCall>>(m);
  implement<forward_meta<KeysCall>>(m);
  implement<backward_meta<KeysBackwardCall>>(m);
  implement<forward_meta<QueriesCall>>(m);
  implement<backward_meta<QueriesBackwardCall>>(m);
}

}  // namespace mala::ops
