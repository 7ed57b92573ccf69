// What a tail makes of the gradients that come: those of `local`, which the sweeps on Hopper take
// in place of the outputs' own.
#pragma once

#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu::hopper {

// One dimension: a thread for each unit of eight numbers of all heads and tokens, in steps.
__global__ void __launch_bounds__(256)
    local_gradients_kernel(const __grid_constant__ Call<BFloat16> call) {
  wait_for_previous();
  let_next_begin();
  const HeadsView<BFloat16>& to = call.gradients.local;
  const bool has_gate = call.inputs.gate.data;
  const int64_t units = to.dim / 8, all = to.batch * to.heads * to.tokens * units;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t column = i % units * 8, row = i / units, token = row % to.tokens;
    const int64_t head = row / to.tokens % to.heads, batch = row / to.tokens / to.heads;
    auto unit = [&](const auto& view) { return &view.head(batch, head).at(token, column); };
    Eight g = load_eight(unit(call.out_gradient));
    if (has_gate) g = times(g, load_eight(unit(call.inputs.gate)));
    store_eight(unit(to), g);
  }
}

}  // namespace mala::gpu::hopper
