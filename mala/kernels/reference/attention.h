// The definition of the operator in double precision: slow, obvious, and what every kernel is
// tested against. Only tests and benches call it.
#pragma once

#include "mala/kernels/attention.h"

namespace mala::reference {

// Writes out (B, H, N, E), from dense or strided inputs, with any lengths. Checks nothing.
void attention_forward(const AttentionInputs<double>& inputs, const AttentionOptions& options,
                       HeadsView<double> out);

// Writes the gradients of sum(out * out_gradient).
void attention_backward(const AttentionInputs<double>& inputs, const AttentionOptions& options,
                        HeadsView<const double> out_gradient,
                        const AttentionGradients<double>& gradients);

}  // namespace mala::reference
