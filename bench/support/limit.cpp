// The two limits: arithmetic, and memory.
#include "bench/support/limit.h"

#include <memory>
#include <vector>

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

Limit memory(const Shape& shape) {
  const auto state =
      std::make_shared<std::vector<double>>(static_cast<size_t>(decode_state_size(shape)), 1.0);
  const int64_t steps = decode_steps_of_run(shape);
  return {[=] {
            for (int64_t step = 0; step < steps; ++step) sweep_in_place(*state);
          },
          [=](const Case&, double burst_ms) { return burst_ms / static_cast<double>(steps); }};
}

}  // namespace

Limit find_limit(const Case& what) {
  return what.form == Form::kDecode ? memory(what.shape) : arithmetic();
}

}  // namespace mala::bench
