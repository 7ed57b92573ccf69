// Finds the function of an implementation, and runs a pass of it.
#include "bench/support/torch_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "bench/support/published.h"

namespace mala::bench {

namespace {

using at::Tensor;

Attention softmax(bool causal) {
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal);
  };
}

Attention our_operator(const Case& what, const Inputs& inputs) {
  ops::AttentionArguments arguments = operator_arguments(what);
  if (inputs.offsets.defined()) arguments.cu_seqlens_q = arguments.cu_seqlens_k = inputs.offsets;
  const auto attention = is_causal(what.form) ? ops::causal_attention : ops::attention;
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return attention(q, k, v, arguments);
  };
}

Results forward(const Attention& attention, const Inputs& inputs) {
  const at::NoGradGuard no_grad;
  return {attention(inputs.qkv[0], inputs.qkv[1], inputs.qkv[2])};
}

// Leaves share the memory of the inputs and are new in each call, so no gradient is added to.
Results forward_backward(const Attention& attention, const Inputs& inputs) {
  Results leaves;
  for (const Tensor& x : inputs.qkv) leaves.push_back(x.detach().set_requires_grad(true));
  const Tensor out = attention(leaves[0], leaves[1], leaves[2]);
  out.backward(inputs.out_gradient);
  return {out.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

}  // namespace

ops::AttentionArguments operator_arguments(const Case& what) {
  const AttentionOptions options = options_of(what);
  ops::AttentionArguments arguments;
  arguments.norm = options.norm;
  arguments.rope = options.q_rope.kind;
  arguments.grid_width = {options.q_rope.width, options.k_rope.width};
  return arguments;
}

Attention published(const Case& what, at::ScalarType dtype) {
  const int64_t tokens = what.shape.tokens;
  const RopeTables rope = grid_rope_tables(tokens, grid_width(tokens), what.shape.dim, dtype);
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return published_attention(q, k, v, rope);
  };
}

Attention find_attention(const std::string& impl, const Case& what, const Inputs& inputs) {
  if (impl == "published") return published(what, scalar_type(what.dtype));
  if (impl == "sdpa") return softmax(is_causal(what.form));
  return our_operator(what, inputs);
}

Results run_pass(const Attention& attention, const Inputs& inputs) {
  return inputs.out_gradient.defined() ? forward_backward(attention, inputs)
                                       : forward(attention, inputs);
}

}  // namespace mala::bench
