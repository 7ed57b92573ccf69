// The schemas of torch.ops.mala.*, and calls to them through the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

#include "mala/ops/attention_call.h"

namespace mala::ops {
namespace {

// What the three operators share.
const std::string kArguments =
    "Tensor q, Tensor k, Tensor v, *, Tensor? local=None, Tensor? gate=None, "
    "str rule=\"mala\", str norm=\"published\", str feature=\"elu1\", bool key_mean=True, "
    "float? scale=None, float eps=1e-6, str rope=\"none\", SymInt[2] rope_offset=[0, 0], "
    "SymInt[2] grid_width=[0, 0], Tensor[]? rope_table=None, "
    "Tensor? key_lengths=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, "
    "Tensor? grid_widths=None";

template <typename Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// The arguments in the order of the schema.
auto flatten(const AttentionCall& c) {
  return std::tie(c.q, c.k, c.v, c.local, c.gate, c.rule, c.norm, c.feature, c.key_mean, c.scale,
                  c.eps, c.rope, c.rope_offset, c.grid_width, c.rope_table, c.key_lengths,
                  c.cu_seqlens_q, c.cu_seqlens_k, c.grid_widths);
}

Tensor out_alone(const AttentionCall& call) { return std::get<0>(call_forward(call)); }

}  // namespace

Tensor call_attention(const AttentionCall& call) {
  static const auto op = find_operator<Flat::Attention>("mala::attention");
  return std::apply([](const auto&... a) { return op.call(a...); }, flatten(call));
}

Outputs call_forward(const AttentionCall& call) {
  static const auto op = find_operator<Flat::Forward>("mala::attention_forward");
  return std::apply([](const auto&... a) { return op.call(a...); }, flatten(call));
}

Gradients call_backward(const Tensor& out_gradient, const Tensor& state,
                        const AttentionCall& call) {
  static const auto op = find_operator<Flat::Backward>("mala::attention_backward");
  return std::apply([&](const auto&... a) { return op.call(out_gradient, state, a...); },
                    flatten(call));
}

}  // namespace mala::ops

TORCH_LIBRARY(mala, m) {
  const auto define = [&](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  using mala::ops::kArguments;
  define("attention(" + kArguments + ") -> Tensor");
  // `state` is what backward needs: (B, Hk, D * E + 2 * D + E), and S in place of B where
  // sequences are packed; see mala/kernels/attention.h.
  define("attention_forward(" + kArguments + ") -> (Tensor out, Tensor state)");
  // The gradients of an absent local or gate have no elements.
  define("attention_backward(Tensor out_gradient, Tensor state, " + kArguments +
         ") -> (Tensor dq, Tensor dk, Tensor dv, Tensor dlocal, Tensor dgate)");
}

TORCH_LIBRARY_IMPL(mala, CompositeImplicitAutograd, m) {
  m.impl("attention", TORCH_FN(mala::ops::Flat::attention<mala::ops::out_alone>));
}
