// Attention in two halves on a GPU: the calls of mala/kernels/split.h on device memory.
//
// Tensors, states, their gradients and scratch are memory of the calling thread's current device,
// as in mala/kernels/cuda/attention.h; the numbers of keys and lengths are the host's.
#pragma once

#include "mala/kernels/split.h"

namespace mala::gpu {

template <typename T>
int64_t keys_scratch_bytes(const KeysInputs<T>& inputs, const AttentionOptions& options);
template <typename T>
int64_t queries_scratch_bytes(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                              const TotalState<T>& state, int64_t value_dim);

// T is float, BFloat16 or Float16. Throw mala::Error before anything is launched. That outputs
// share no memory with inputs is the caller's part.
template <typename T>
void keys_forward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                  std::span<float> state, std::span<std::byte> scratch, void* stream);
template <typename T>
void queries_forward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                     const TotalState<T>& state, HeadsView<T> out, std::span<std::byte> scratch,
                     void* stream);
template <typename T>
void queries_backward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                      const TotalState<T>& state, HeadsView<const T> out_gradient,
                      const AttentionGradients<T>& gradients, std::span<float> state_gradient,
                      std::span<std::byte> scratch, void* stream);
template <typename T>
void keys_backward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                   std::span<const float> state_gradient, const AttentionGradients<T>& gradients,
                   std::span<std::byte> scratch, void* stream);

}  // namespace mala::gpu
