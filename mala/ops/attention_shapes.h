// What every device shares: checks of the tensors of a call, and its results, allocated.
#pragma once

#include "mala/ops/attention_call.h"

namespace mala::ops {

// Throws unless the tensors have four dimensions, one supported type and one device, and the
// lengths and options are valid. Sizes of the others are for the kernels to check: they see strides
// and token counts too.
void check_call(const AttentionCall& call);

// The same for what backward gets besides: the gradient of out and the state of forward.
void check_backward(const Tensor& out_gradient, const Tensor& state, const AttentionCall& call);

// Memory for the results of a call that passed its check; the tensors may be without memory and
// have sizes that are symbols, and then the results are so too.
//
// out and each gradient keep the order in memory of their model, q or the input, but densely:
// (B, H, N, E), or (B, N, H, E) where it has tokens outside of heads, or (B, H, E, N) where it
// has channels outside of tokens, as channels-first images have.
Tensor new_out(const AttentionCall& call);
Tensor new_state(const AttentionCall& call);
Gradients new_gradients(const AttentionCall& call);

}  // namespace mala::ops
