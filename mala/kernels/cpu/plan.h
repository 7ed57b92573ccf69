// How a call falls apart: sequences, the heads of each, and parts of their tokens. It follows from
// the sizes alone, never from the number of workers, so that every bit stays the same.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mala/kernels/attention.h"
#include "mala/kernels/cpu/layout.h"

namespace mala::cpu {

struct Span {
  int64_t first = 0, count = 0;
};

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// With fewer units than this, the tokens of each are split; with more, a unit is one task. A part
// costs the memory of a state, so there are not many more of them.
constexpr int64_t kManyUnits = 64;

// A sequence's tokens as parts of equal size.
struct Split {
  // Parts of fewer tokens would not be worth their own sums.
  static constexpr int64_t kLeastTokens = 256;

  int64_t tokens, parts, part_tokens;

  Split(int64_t tokens_of_head, int64_t units) : tokens(tokens_of_head) {
    const int64_t most = std::max<int64_t>(1, kManyUnits / units);
    const int64_t wanted = std::min(most, divide_up(tokens, kLeastTokens));
    part_tokens = divide_up(divide_up(tokens, wanted), kBlock) * kBlock;
    parts = divide_up(tokens, part_tokens);
  }

  Span part(int64_t i) const {
    return {i * part_tokens, std::min(part_tokens, tokens - i * part_tokens)};
  }
};

// One sequence: a batch entry, or one of those packed into a single entry.
struct Sequence {
  int64_t batch = 0;
  Span queries = {}, keys = {};      // tokens of the tensors
  int64_t q_width = 0, k_width = 0;  // of its image, for RoPE in a grid
};

// The sizes of a call. A unit is one head of keys and values of one sequence, and the `group` of
// query heads that use it; it has a state of its own.
struct Plan {
  int64_t sequences = 0, kv_heads = 0, group = 0;
  StateLayout layout;

  int64_t units() const { return sequences * kv_heads; }
  bool many_units() const { return units() >= kManyUnits; }
};

template <typename T>
Plan plan_of(const AttentionInputs<T>& inputs) {
  const Lengths& lengths = inputs.lengths;
  const int64_t packed = static_cast<int64_t>(lengths.q_offsets.size()) - 1;
  return {.sequences = packed > 0 ? packed : inputs.q.batch,
          .kv_heads = inputs.k.heads,
          .group = inputs.q.heads / inputs.k.heads,
          .layout = {inputs.q.dim, inputs.v.dim}};
}

inline Span between(std::span<const int64_t> offsets, int64_t i) {
  return {offsets[i], offsets[i + 1] - offsets[i]};
}

template <typename T>
Sequence sequence_of(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                     int64_t index) {
  const Lengths& lengths = inputs.lengths;
  const size_t i = static_cast<size_t>(index);
  Sequence sequence{.q_width = options.q_rope.width, .k_width = options.k_rope.width};
  if (!lengths.q_offsets.empty()) {
    sequence.queries = between(lengths.q_offsets, index);
    sequence.keys = between(lengths.k_offsets, index);
  } else {
    sequence.batch = index;
    sequence.queries = {0, inputs.q.tokens};
    sequence.keys = {0, lengths.key_counts.empty() ? inputs.k.tokens : lengths.key_counts[i]};
  }
  if (!lengths.q_widths.empty()) sequence.q_width = lengths.q_widths[i];
  if (!lengths.k_widths.empty()) sequence.k_width = lengths.k_widths[i];
  return sequence;
}

}  // namespace mala::cpu
