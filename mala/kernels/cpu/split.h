// The two halves of the operator on the CPU, each on its own. Checks nothing.
#pragma once

#include <cstddef>
#include <span>

#include "mala/kernels/split.h"

namespace mala::cpu {

template <typename T>
int64_t keys_scratch_bytes(const KeysInputs<T>& inputs, const AttentionOptions& options);
template <typename T>
int64_t queries_scratch_bytes(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                              const TotalState<T>& state, int64_t value_dim);

template <typename T>
void keys_forward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                  std::span<Compute<T>> state, std::span<std::byte> scratch);
template <typename T>
void queries_forward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                     const TotalState<T>& state, HeadsView<T> out, std::span<std::byte> scratch);
template <typename T>
void queries_backward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                      const TotalState<T>& state, HeadsView<const T> out_gradient,
                      const AttentionGradients<T>& gradients, std::span<Compute<T>> state_gradient,
                      std::span<std::byte> scratch);
template <typename T>
void keys_backward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                   std::span<const Compute<T>> state_gradient,
                   const AttentionGradients<T>& gradients, std::span<std::byte> scratch);

}  // namespace mala::cpu
