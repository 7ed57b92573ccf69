// Attention in two halves, for tokens that are spread over several callers (processes, machines).
// Each sums its own keys, the callers add their states and key counts, and each applies the total
// to its own queries. Backward runs the same way home: each passes its queries' gradient into a
// gradient of the state, the callers add these, and each passes the total on to its own keys.
//
//   keys_forward     k, v            -> state           add the states of all callers
//   queries_forward  q, state        -> out
//   queries_backward dout            -> dq, dstate      add the dstates of all callers
//   keys_backward    dstate          -> dk, dv
//
// With one caller this is attention_forward and attention_backward. Positions of RoPE go on from
// caller to caller by the offsets of the options. Where a caller has no keys of some sequence, it
// leaves that sequence out of its own call and adds nothing for it. All throw mala::Error before
// anything is written, and outputs may overlap nothing else.
#pragma once

#include "mala/kernels/attention.h"

namespace mala {

// The keys of one caller: of `lengths`, key_counts, k_offsets and k_widths count.
template <typename T>
struct KeysInputs {
  HeadsView<const T> k = {}, v = {};
  Lengths lengths = {};
};

// The queries of one caller: of `lengths`, q_offsets and q_widths count.
template <typename T>
struct QueriesInputs {
  HeadsView<const T> q = {}, local = {}, gate = {};
  Lengths lengths = {};
};

// The state of all keys: of each sequence and each of `heads` heads of keys and values, laid out
// as in attention_state_size, and the number of keys in each sequence.
template <typename T>
struct TotalState {
  std::span<const Compute<T>> sums = {};
  std::span<const int64_t> key_counts = {};
  int64_t heads = 0;
};

template <typename T>
int64_t keys_scratch_bytes(const KeysInputs<T>& inputs, const AttentionOptions& options);
template <typename T>
int64_t queries_scratch_bytes(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                              const TotalState<T>& state, int64_t value_dim);

// Writes the sums over these keys.
template <typename T>
void keys_forward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                  std::span<Compute<T>> state, std::span<std::byte> scratch);

template <typename T>
void queries_forward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                     const TotalState<T>& state, HeadsView<T> out, std::span<std::byte> scratch);

// Writes the gradients of q, local and gate (k and v stay absent) and that of the state's sums.
template <typename T>
void queries_backward(const QueriesInputs<T>& inputs, const AttentionOptions& options,
                      const TotalState<T>& state, HeadsView<const T> out_gradient,
                      const AttentionGradients<T>& gradients, std::span<Compute<T>> state_gradient,
                      std::span<std::byte> scratch);

// Writes the gradients of k and v (the others stay absent).
template <typename T>
void keys_backward(const KeysInputs<T>& inputs, const AttentionOptions& options,
                   std::span<const Compute<T>> state_gradient,
                   const AttentionGradients<T>& gradients, std::span<std::byte> scratch);

}  // namespace mala
