// How a call falls apart: sequences, the heads of each, and parts of their tokens. It follows from
// the sizes alone, never from the number of workers, so that every bit stays the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "mala/core/parallel.h"
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

// The queries or the keys of one sequence.
struct Sequence {
  int64_t batch = 0;
  Span tokens = {};   // of that batch entry
  int64_t width = 0;  // of its image, for RoPE in a grid
};

// How queries or keys fall into sequences: batch entries, of which perhaps only so many tokens
// count, or what is packed into a single entry.
struct Sequences {
  int64_t batch = 0, tokens = 0;
  std::span<const int64_t> counts = {}, offsets = {};
  std::span<const int64_t> widths = {};
  int64_t width = 0;  // where there are no widths

  int64_t size() const {
    return offsets.empty() ? batch : static_cast<int64_t>(offsets.size()) - 1;
  }

  Sequence operator[](int64_t index) const {
    const size_t i = static_cast<size_t>(index);
    Sequence sequence{.width = widths.empty() ? width : widths[i]};
    if (!offsets.empty()) {
      sequence.tokens = {offsets[i], offsets[i + 1] - offsets[i]};
    } else {
      sequence.batch = index;
      sequence.tokens.count = counts.empty() ? tokens : counts[i];
    }
    return sequence;
  }
};

template <typename T>
Sequences query_sequences(const HeadsView<const T>& q, const Lengths& lengths, const Rope& rope) {
  return {.batch = q.batch,
          .tokens = q.tokens,
          .offsets = lengths.q_offsets,
          .widths = lengths.q_widths,
          .width = rope.width};
}

template <typename T>
Sequences key_sequences(const HeadsView<const T>& k, const Lengths& lengths, const Rope& rope) {
  return {.batch = k.batch,
          .tokens = k.tokens,
          .counts = lengths.key_counts,
          .offsets = lengths.k_offsets,
          .widths = lengths.k_widths,
          .width = rope.width};
}

// The matrix of one head, cut down to the tokens of a sequence.
template <typename T>
MatrixView<T> cut(const HeadsView<T>& view, int64_t head, const Sequence& sequence) {
  if (!view.data) return {};
  MatrixView<T> matrix = view.head(sequence.batch, head);
  matrix.data = matrix.row(sequence.tokens.first);
  matrix.rows = sequence.tokens.count;
  return matrix;
}

// The sizes of a call. A unit is one head of keys and values of one sequence, and the `group` of
// query heads that use it; it has a state of its own.
struct Plan {
  int64_t sequences = 0, kv_heads = 0, group = 0;
  StateLayout layout;

  int64_t units() const { return sequences * kv_heads; }
  bool many_units() const { return units() >= kManyUnits; }
  int64_t sequence(int64_t unit) const { return unit / kv_heads; }
  int64_t kv_head(int64_t unit) const { return unit % kv_heads; }

  // Where there are many units, each is the task of one worker, which has room for one at a time;
  // else every unit has operands of its own.
  int64_t operand_slots() const { return many_units() ? max_workers() : units(); }
  int64_t operand_slot(int64_t unit, int64_t worker) const { return many_units() ? worker : unit; }
};

}  // namespace mala::cpu
