// Checks of sizes for tensors without memory. With memory the kernels make them.
#pragma once

#include "mala/ops/calls.h"

namespace mala::ops {

// For calls that passed check_call. Sizes may be symbols.
void check_sizes(const AttentionCall& call);
void check_sizes(const StatelessCall& call);
void check_sizes(const ChunkCall& call);
void check_sizes(const TextCall& call);
void check_sizes(const StepCall& call);
void check_sizes(const KeysCall& call);
void check_sizes(const QueriesCall& call);

}  // namespace mala::ops
