// The two limits: arithmetic, and memory.
#include "bench/support/limit.h"

#include <ATen/ATen.h>

#include <memory>
#include <span>

#include "bench/support/decode.h"
#include "bench/support/roof.h"

namespace mala::bench {

namespace {

Limit arithmetic() {
  const auto burst_flop = std::make_shared<double>(0);
  return {
      [=] { *burst_flop = multiply_add_burst(); },
      [=](const Case& what, double burst_ms) { return flop_count(what) / *burst_flop * burst_ms; }};
}

// On memory of the state's size from the allocator that gives the state: vectors that cross cache
// lines, as in memory that is not aligned, would make the limit look lower.
Limit memory(const Shape& shape) {
  const at::Tensor state = at::ones({decode_state_size(shape)}, at::kDouble);
  const std::span<double> values(state.mutable_data_ptr<double>(),
                                 static_cast<size_t>(state.numel()));
  const int64_t steps = decode_steps_of_run(shape);
  return {[state, values, steps] {
            for (int64_t step = 0; step < steps; ++step) sweep_in_place(values);
          },
          [=](const Case&, double burst_ms) { return burst_ms / static_cast<double>(steps); }};
}

}  // namespace

Limit find_limit(const Case& what) {
  return what.form == Form::kDecode ? memory(what.shape) : arithmetic();
}

}  // namespace mala::bench
