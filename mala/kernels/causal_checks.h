// What both the CPU's and the GPU's entry of the causal form check before anything is written.
// Private to kernels.
#pragma once

#include "mala/kernels/causal.h"

namespace mala {

// Scratch that came, how much is needed and how a caller learns that.
struct ScratchNeeds {
  std::span<std::byte> bytes;
  int64_t needed = 0;
  const char* advice = "";
};

// Throw mala::Error unless everything fits. Counts are read, sums are not.
template <typename T>
void check_causal_inputs(const char* where, const CausalInputs<T>& inputs,
                         const AttentionOptions& options);
template <typename T>
void check_causal_forward(const char* where, const CausalInputs<T>& inputs, const HeadsView<T>& out,
                          const CausalStateAfter& after, const ScratchNeeds& scratch);
template <typename T>
void check_causal_backward(const char* where, const CausalInputs<T>& inputs,
                           const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                           const ScratchNeeds& scratch);
// Reads neither sums nor counts.
template <typename T>
void check_causal_step(const char* where, const AttentionInputs<T>& token,
                       const AttentionOptions& options, const HeadsView<T>& out,
                       const CausalStateAfter& state);

// A state whose numbers can be read: its counts are counts, and nothing stands under a count of 0.
template <typename T>
void check_text_so_far(const char* where, const AttentionInputs<T>& tokens,
                       const AttentionOptions& options, std::span<const double> sums,
                       std::span<const int64_t> counts);

}  // namespace mala
