// What both the CPU's and the GPU's entry of the bidirectional operator check before anything is
// written. Private to kernels.
#pragma once

#include "mala/kernels/attention.h"

namespace mala {

// State and scratch of a call, whether it needs a state, how much scratch it needs and how its
// caller learns that.
struct AttentionBuffers {
  std::span<const std::byte> state, scratch;
  bool needs_state = true;
  int64_t scratch_bytes = 0;
  const char* scratch_advice = "";
};

// Throw mala::Error unless tensors and buffers fit each other and lie apart. `inputs` and options
// were checked.
template <typename T>
void check_forward(const char* where, const AttentionInputs<T>& inputs, const HeadsView<T>& out,
                   const AttentionBuffers& buffers);
template <typename T>
void check_backward(const char* where, const AttentionInputs<T>& inputs,
                    const HeadsView<const T>& out_gradient, const AttentionGradients<T>& gradients,
                    const AttentionBuffers& buffers);

}  // namespace mala
