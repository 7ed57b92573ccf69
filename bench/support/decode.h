// Decoding: a token for each of several sequences, whose states are brought up to date in place.
#pragma once

#include <functional>
#include <string>

#include "bench/support/inputs.h"

namespace mala::bench {

// Tokens that are decoded before the clock starts, and compared.
constexpr int64_t kDecodedTokens = 32;

// Decodes the token of that number, 0 to kDecodedTokens - 1, for every sequence, and returns its
// output (B, H, 1, D). `inputs` hold kDecodedTokens tokens. "kernels" or "mala".
using DecodeStep = std::function<at::Tensor(int64_t token)>;
DecodeStep decode_step(const std::string& impl, const Case& what, const Inputs& inputs);

// Elements of the state, in double.
int64_t decode_state_size(const Shape& shape);

// A step is over in microseconds, so what is timed is a run of several.
int64_t decode_steps_of_run(const Shape& shape);

}  // namespace mala::bench
