// mala::attention for tensors without memory: the sizes and strides of its results, for
// torch.compile, export and the meta device. Sizes may be symbols.
#include <torch/library.h>

#include <array>

#include "mala/ops/attention_shapes.h"

namespace mala::ops {
namespace {

// The kernels, which check sizes for real tensors, need memory.
void check_sizes(const char* name, const Tensor& x, const std::array<c10::SymInt, 4>& needed) {
  for (int64_t i = 0; i < 4; ++i) {
    TORCH_SYM_CHECK(x.sym_size(i).sym_eq(needed[i]), "[mala::attention] ", name, " has sizes ",
                    x.sym_sizes(), "; with the other inputs they must be ",
                    c10::SymIntArrayRef(needed));
  }
}

void check_groups(const c10::SymInt& heads, const c10::SymInt& kv_heads) {
  TORCH_SYM_CHECK(kv_heads.sym_ge(1), "[mala::attention] k has no heads; it needs at least 1");
  TORCH_SYM_CHECK((heads % kv_heads).sym_eq(0), "[mala::attention] k has ", kv_heads,
                  " heads but q has ", heads, "; the heads of k and v must divide those of q");
}

void check_dim(const char* name, const c10::SymInt& dim) {
  TORCH_SYM_CHECK((dim % 8).sym_eq(0), "[mala::attention] ", name, " has head size ", dim,
                  "; it must be a multiple of 8; with real tensors the message says how to pad");
  TORCH_SYM_CHECK(dim.sym_le(256), "[mala::attention] ", name, " has head size ", dim,
                  "; it must be 256 or less: split the heads");
}

void check_all_sizes(const AttentionCall& call) {
  const auto batch = call.q.sym_size(0), heads = call.q.sym_size(1), queries = call.q.sym_size(2);
  const auto dim = call.q.sym_size(3), keys = call.k.sym_size(2), value_dim = call.v.sym_size(3);
  const auto kv_heads = call.k.sym_size(1);
  check_dim("q", dim);
  check_dim("v", value_dim);
  check_sizes("k", call.k, {batch, kv_heads, keys, dim});
  check_sizes("v", call.v, {batch, kv_heads, keys, value_dim});
  check_groups(heads, kv_heads);
  if (call.local) check_sizes("local", *call.local, {batch, heads, queries, value_dim});
  if (call.gate) check_sizes("gate", *call.gate, {batch, heads, queries, value_dim});
}

Outputs forward_meta(const AttentionCall& call) {
  check_call(call);
  check_all_sizes(call);
  return {new_out(call), new_state(call)};
}

Gradients backward_meta(const Tensor& out_gradient, const Tensor& state,
                        const AttentionCall& call) {
  check_backward(out_gradient, state, call);
  check_all_sizes(call);
  return new_gradients(call);
}

}  // namespace

TORCH_LIBRARY_IMPL(mala, Meta, m) {
  m.impl("attention_forward", TORCH_FN(Flat::forward<forward_meta>));
  m.impl("attention_backward", TORCH_FN(Flat::backward<backward_meta>));
}

}  // namespace mala::ops
