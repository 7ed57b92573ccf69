// The causal form on a GPU: the calls of mala/kernels/causal.h on device memory.
//
// Tensors, states and scratch are memory of the calling thread's current device, as in
// mala/kernels/cuda/attention.h; only the counts of the state before a call are the host's.
#pragma once

#include "mala/kernels/causal.h"

namespace mala::gpu {

// Bytes of scratch on the current device: some two numbers a token for each pair of columns, with
// backward four; for heads beyond 128 as much as 64 times the tensors' own size.
template <typename T>
int64_t causal_forward_scratch_bytes(const CausalInputs<T>& inputs,
                                     const AttentionOptions& options);
template <typename T>
int64_t causal_backward_scratch_bytes(const CausalInputs<T>& inputs,
                                      const AttentionOptions& options);

// T is float, BFloat16 or Float16. Throw mala::Error as on the CPU, for sequences of more than
// 4194240 tokens in heads beyond 128, and for more parts of heads than a GPU counts, before
// anything is launched. Without a state before, a forward may be one pass over its tokens.
template <typename T>
void causal_forward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                    HeadsView<T> out, const CausalStateAfter& after, std::span<std::byte> scratch,
                    void* stream);
template <typename T>
void causal_backward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                     std::span<std::byte> scratch, void* stream);

// Here all counts are device memory and are brought up to date there, so that a captured graph can
// be replayed token after token. Nobody waits for the device to look at them: where one is not
// a count, or beyond a table of turns, the outputs of its sequence are NaN.
template <typename T>
void causal_step(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
                 const CausalStateAfter& state, void* stream);

}  // namespace mala::gpu
