// What the kernels take of a state that came before a chunk.
#pragma once

#include "mala/kernels/causal.h"
#include "mala/ops/calls.h"
#include "mala/ops/kernel_inputs.h"

namespace mala::ops {

// Sums where the tokens are, in one piece, and counts on the host; empty at the beginning of the
// text.
struct StateBefore {
  explicit StateBefore(const ChunkCall& call) {
    if (call.state) sums = call.state->contiguous();
    if (call.count) counts = call.count->cpu().contiguous();
  }

  CausalState view() const {
    if (!sums.defined()) return {};
    return {.sums = read_span<double>(sums), .counts = read_span<int64_t>(counts)};
  }

  Tensor sums, counts;
};

}  // namespace mala::ops
