// The operator on a GPU: the calls of mala/kernels/attention.h on device memory.
//
// Every tensor, the state, the scratch and the tables of RoPE are memory of the calling thread's
// current device; the numbers of Lengths are the host's and may be let go after the call. `stream`
// is a cudaStream_t of that device (null: the default one). Calls return before the work is done,
// never wait for the device and never allocate, so that they can be captured into a graph.
#pragma once

#include "mala/kernels/attention.h"

namespace mala::gpu {

// Bytes of scratch that a call needs on the current device, for these very tensors: how their rows
// are aligned matters. T is float, BFloat16 or Float16. Throw mala::Error as the calls do.
template <typename T>
int64_t attention_forward_scratch_bytes(const AttentionInputs<T>& inputs,
                                        const AttentionOptions& options);
template <typename T>
int64_t attention_backward_scratch_bytes(const AttentionInputs<T>& inputs,
                                         const AttentionOptions& options);

// Writes out and the state (attention_state_size floats), which is empty where no backward will
// follow: out has the same bits without it. The same bits for the same call on the same kind of
// device, run after run. Throws mala::Error, before anything is launched, when shapes or sizes do
// not fit, and when a launch fails. That outputs share no memory with inputs is the caller's part.
template <typename T>
void attention_forward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                       HeadsView<T> out, std::span<float> state, std::span<std::byte> scratch,
                       void* stream);

// Writes the gradients from that of out and the state that forward left.
template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const float> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch,
                        void* stream);

}  // namespace mala::gpu
