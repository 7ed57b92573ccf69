// The definition of the causal form in double precision: slow, obvious, token by token. Only tests
// and benches call it.
#pragma once

#include "mala/kernels/causal.h"

namespace mala::reference {

// What mala::causal_forward and mala::causal_backward promise. Check nothing.
void causal_forward(const CausalInputs<double>& inputs, const AttentionOptions& options,
                    HeadsView<double> out, const CausalStateAfter& after);
void causal_backward(const CausalInputs<double>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<double>& from,
                     const CausalInputGradients<double>& to);

}  // namespace mala::reference
