// What a kernel of the operator is told: sizes, options and addresses of device memory, by value.
#pragma once

#include <cstdint>

#include "mala/core/dtypes.h"
#include "mala/core/views.h"
#include "mala/kernels/attention.h"

namespace mala::gpu {

MALA_INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One sequence: a batch entry, or one of those packed into a single entry.
struct Sequence {
  int64_t batch = 0;
  int64_t q_first = 0, q_count = 0, k_first = 0, k_count = 0;
  int64_t q_width = 0, k_width = 0;                // of its image, for RoPE in a grid
  int64_t q_parts = 0, k_parts = 0;                // of one head
  int64_t q_parts_before = 0, k_parts_before = 0;  // of one head of all sequences before it
  int64_t earlier = 0;                             // keys before the first, of a causal call
};

// With which weight a token of a causal call enters the gradients of the four sums.
struct SweepWeights {
  float product = 0.0f, plain = 0.0f, rotated = 0.0f, mean = 0.0f;
};

// cos and sin of a position come from one table, or, where that would be long, from two small ones
// whose entries are composed: position = kTurnBlock * block + rest.
constexpr int kTurnBlock = 128;

struct Turn {
  float cos, sin;
};

// How the tokens of one side turn. Every kind becomes tables of turns, (.., axis_pairs) each. In a
// grid the rows' entries come first and the columns' after them.
struct Turning {
  bool turns = false, by_table = false;
  int64_t offset = 0;
  int pairs = 0;                 // D / 2
  int axis_pairs = 0;            // pairs with a frequency of their own: all, or half for a grid
  int pitch = 0;                 // entries from a row of a table to the next
  const Turn* rests = nullptr;   // of all positions from first_row on, or the first kTurnBlock
  const Turn* blocks = nullptr;  // of every kTurnBlock-th from first_row on, or none
  bool composed = false;         // whether there are such
  int columns = 0;               // where the columns begin, less the pairs of a row
  int64_t first_row = 0;
  bool near = false;  // kernels make their table themselves
};
// Of a table in shared memory: what neighbours in a grid read at once lies in other banks.
MALA_INLINE constexpr int near_pitch(int axis_pairs) { return axis_pairs + 2; }
constexpr int kMostNearPairs = 32;                       // with frequencies of their own
constexpr int64_t kMostNearPosition = int64_t{1} << 24;  // that float32 counts to

struct Frequency {
  float first, rest;
};

// What a kernel is compiled to know of turns: that there are none; that one table has them all, in
// global memory or maybe nearer; that two tables of a line have to be composed; or nothing.
enum class Turned { kNot, kDirect, kNear, kLine, kSomehow };

// Floats of one head's state, or of the sums of a part of its tokens.
struct StateLayout {
  int64_t dim = 0, value_dim = 0;

  MALA_INLINE int64_t keys() const { return dim * value_dim; }
  MALA_INLINE int64_t rotated_keys() const { return keys() + dim; }
  MALA_INLINE int64_t values() const { return rotated_keys() + dim; }
  MALA_INLINE int64_t size() const { return values() + value_dim; }
};

// Which tensors have rows that 16-byte accesses can walk over.
struct Vectors {
  bool q = false, k = false, v = false, local = false, gate = false, out = false;
  bool out_gradient = false, d_query = false, d_key = false, d_value = false, d_local = false,
       d_gate = false;
};

template <typename T>
struct Call {
  AttentionInputs<T> inputs;
  HeadsView<T> out;
  HeadsView<const T> out_gradient;
  AttentionGradients<T> gradients;
  Vectors vectors;

  Rule rule;
  Norm norm;
  Feature feature;
  bool key_mean;
  float scale, eps;
  Turning q_turning, k_turning;
  bool turn_alike;  // token by token
  // In whole turns per position, in two parts, where turns are near.
  Frequency q_frequencies[kMostNearPairs], k_frequencies[kMostNearPairs];

  int64_t sequences, heads, kv_heads, group;
  StateLayout layout;
  const Sequence* table;  // null where all sequences are like `alike`, one in each batch entry
  Sequence alike;
  int64_t q_part_tokens, k_part_tokens;

  float* state;         // of each unit, a sequence's head of keys and values; null where the only
                        // kernel of a forward keeps none
  float* parts;         // sums of each part of the keys, or of the queries of all heads
  float* gradient;      // of the state, of each unit
  std::byte* operands;  // of each unit, where they do not fit into shared memory

  // Of causal calls. Per part and unit: the sums before it, about the mean value before it, which
  // stands in place of the values; and the gradient of the sums after it.
  float *prefixes, *suffixes;
  SweepWeights* token_weights;  // sequence after sequence, of each its heads after each other
  const double *state_before, *state_gradient_after;
  double *state_after, *state_gradient_before;
  int64_t* counts_after;

  MALA_INLINE Sequence sequence(int64_t index) const {
    if (table) return table[index];
    Sequence one = alike;
    one.batch = index;
    one.q_parts_before = index * one.q_parts;
    one.k_parts_before = index * one.k_parts;
    return one;
  }
  MALA_INLINE bool has_tail() const { return inputs.local.data || inputs.gate.data; }
  MALA_INLINE bool centred() const { return norm == Norm::kBalanced; }
  MALA_INLINE bool rotated_magnitude() const { return norm == Norm::kPrinted; }
};

// How both sides turn, where kernels for it are compiled.
template <typename T>
Turned how_turned(const Call<T>& call) {
  auto how = [](const Turning& by) {
    if (!by.turns) return Turned::kNot;
    if (!by.composed) return Turned::kDirect;
    return by.axis_pairs == by.pairs ? Turned::kLine : Turned::kSomehow;
  };
  const Turned q = how(call.q_turning);
  return q == how(call.k_turning) ? q : Turned::kSomehow;
}

}  // namespace mala::gpu
