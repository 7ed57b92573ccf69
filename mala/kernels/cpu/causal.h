// The causal form on the CPU. Checks nothing.
#pragma once

#include <cstddef>
#include <span>

#include "mala/kernels/causal.h"

namespace mala::cpu {

template <typename T>
int64_t causal_forward_scratch_bytes(const CausalInputs<T>& inputs,
                                     const AttentionOptions& options);
template <typename T>
int64_t causal_backward_scratch_bytes(const CausalInputs<T>& inputs,
                                      const AttentionOptions& options);

template <typename T>
void causal_forward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                    HeadsView<T> out, const CausalStateAfter& after, std::span<std::byte> scratch);

template <typename T>
void causal_backward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                     std::span<std::byte> scratch);

template <typename T>
void causal_step(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
                 const CausalStateAfter& state);

}  // namespace mala::cpu
