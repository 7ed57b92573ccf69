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
  int64_t q_width = 0, k_width = 0;  // of its image, for RoPE in a grid
  int64_t q_parts = 0, k_parts = 0;  // of one head of all sequences before it
};

// cos and sin of a position are composed from two small tables: position = kTurnBlock * block +
// rest. The first alone serves images of up to so many rows and columns, and stays in the L1 cache.
constexpr int kTurnBlock = 128;

struct Turn {
  float cos, sin;
};

// How the tokens of one side turn. Every kind becomes tables of turns: a caller's own has a row for
// each token, and no blocks.
struct Turning {
  bool turns = false, by_table = false;
  int64_t offset = 0;
  int pairs = 0;                 // D / 2
  int axis_pairs = 0;            // pairs with a frequency of their own: all, or half for a grid
  const Turn* rests = nullptr;   // (kTurnBlock, axis_pairs)
  const Turn* blocks = nullptr;  // (.., axis_pairs) from block first_block on, or none; in a grid
                                 // those of the rows, then those of the columns
  int column_blocks = 0;         // the first of the latter
  int64_t first_block = 0;
};

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

  int64_t sequences, heads, kv_heads, group;
  StateLayout layout;
  const Sequence* table;  // null where all sequences are like `alike`, one in each batch entry
  Sequence alike;
  int64_t q_part_tokens, k_part_tokens;

  float* state;         // of each unit: a sequence's head of keys and values
  float* parts;         // sums of each part of the keys, or of the queries of all heads
  float* gradient;      // of the state, of each unit
  std::byte* operands;  // of each unit, where they do not fit into shared memory

  MALA_INLINE Sequence sequence(int64_t index) const {
    if (table) return table[index];
    Sequence one = alike;
    one.batch = index;
    one.q_parts = index * divide_up(one.q_count, q_part_tokens);
    one.k_parts = index * divide_up(one.k_count, k_part_tokens);
    return one;
  }
  MALA_INLINE bool centred() const { return norm == Norm::kBalanced; }
  MALA_INLINE bool rotated_magnitude() const { return norm == Norm::kPrinted; }
};

}  // namespace mala::gpu
