// The operator on the CPU: tokens split into tasks, tasks spread over workers. Checks nothing.
#pragma once

#include <cstddef>
#include <span>

#include "mala/kernels/attention.h"

namespace mala::cpu {

template <typename T>
int64_t attention_scratch_bytes(const AttentionInputs<T>& inputs, const AttentionOptions& options);

template <typename T>
void attention_forward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                       HeadsView<T> out, std::span<Compute<T>> state, std::span<std::byte> scratch);

template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const Compute<T>> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch);

}  // namespace mala::cpu
