// What every device shares for the operators: the checks of a call, and its results, allocated.
#pragma once

#include "mala/ops/calls.h"

namespace mala::ops {

// Each throws "[mala::operator] what came, what is needed, what to try" unless the tensors have
// four dimensions, one supported type and one device, and the lengths and options are valid.
void check_call(const AttentionCall& call);
void check_call(const StatelessCall& call);
void check_call(const BackwardCall& call);
void check_call(const ChunkCall& call);
void check_call(const TextCall& call);
void check_call(const ChunkBackwardCall& call);
void check_call(const StepCall& call);
void check_call(const KeysCall& call);
void check_call(const KeysBackwardCall& call);
void check_call(const QueriesCall& call);
void check_call(const QueriesBackwardCall& call);

// What the calls share that have q, k and v: `causal` for those where cu_seqlens_q says all.
void check_tokens(const char* where, const AttentionCall& call, bool causal);

// Memory for the results of a call that passed its check.
Outputs new_outputs(const AttentionCall& call);
Tensor new_outputs(const StatelessCall& call);
ChunkOutputs new_outputs(const ChunkCall& call);
ChunkOutputs new_outputs(const ChunkCall& call, bool keeps_state);  // else undefined
Tensor new_outputs(const TextCall& call);
Tensor new_outputs(const StepCall& call);
Tensor new_outputs(const KeysCall& call);
Tensor new_outputs(const QueriesCall& call);
Gradients new_gradients(const AttentionCall& call);
ChunkGradients new_gradients(const ChunkCall& call);
KeysGradients new_gradients(const KeysCall& call);
QueriesGradients new_gradients(const QueriesCall& call);

}  // namespace mala::ops
