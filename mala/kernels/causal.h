// The causal form: token t sees the keys up to and including its own. What came before a call is
// a state of fixed size, however long the text was, so a text may be given whole, in chunks of any
// sizes, or token by token, with the same result up to rounding. docs/math.md has the formulas.
#pragma once

#include "mala/kernels/attention.h"

namespace mala {

// What earlier tokens left behind, for each sequence (B, or S where they are packed) and each of
// the Hk heads of keys and values. The sums lie as in attention_state_size, and are double for
// every type of tensor: a million tokens added one by one lose no digits.
struct CausalState {
  std::span<const double> sums = {};     // empty: every sequence begins with this call
  std::span<const int64_t> counts = {};  // (sequences): the keys in the sums, 0 at the beginning
};

// Where to leave the state after the call; empty where it is not wanted. It may be the very memory
// of the state before the call.
struct CausalStateAfter {
  std::span<double> sums = {};
  std::span<int64_t> counts = {};
};

// Of a call with its state: N = M, and packed sequences have the same offsets for queries and keys
// (k_offsets may be left out). Token n of a sequence has position rope.offset + count + n, for the
// line and the grid; in a table it has row count + n. With key counts, tokens beyond the count
// bring no key and see those that count; the state holds only these. Where no norm is given, the
// rule mala takes the balanced one.
template <typename T>
struct CausalInputs {
  AttentionInputs<T> tokens = {};
  CausalState before = {};
};

// Bytes of scratch: forward's does not grow with the tokens beyond a bound of some 32 states,
// backward's does, by four numbers for each token and query head. Throw as the calls do.
template <typename T>
int64_t causal_forward_scratch_bytes(const CausalInputs<T>& inputs,
                                     const AttentionOptions& options);
template <typename T>
int64_t causal_backward_scratch_bytes(const CausalInputs<T>& inputs,
                                      const AttentionOptions& options);

// Writes out (B, H, N, E) and the state after the last token. Throws mala::Error, before anything
// is written, when something does not fit.
template <typename T>
void causal_forward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                    HeadsView<T> out, const CausalStateAfter& after, std::span<std::byte> scratch);

// What flows back into a call: the gradient of out, and that of the sums it left (empty: none).
template <typename T>
struct CausalOutputGradients {
  HeadsView<const T> out = {};
  std::span<const double> after = {};
};

// What flows out of it; `before`, the gradient of the sums it began with, may be empty.
template <typename T>
struct CausalInputGradients {
  AttentionGradients<T> tokens = {};
  std::span<double> before = {};
};

// Throws as forward does. Outputs may overlap nothing else.
template <typename T>
void causal_backward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                     std::span<std::byte> scratch);

// One token for each of B sequences, whose states are brought up to date in place: what
// causal_forward does for N = 1, at the speed at which the states can be read and written. The
// inputs have no lengths. Throws as forward does.
template <typename T>
void causal_step(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
                 const CausalStateAfter& state);

}  // namespace mala
