// Which queries meet which keys, and in which heads.
#include "mala/kernels/reference/pieces.h"

namespace mala::reference {
namespace {

// Sequence s of those that are packed: its tokens count from 0, as those of a batch entry do.
Piece packed_sequence(const Lengths& lengths, int64_t s) {
  const auto& q = lengths.q_offsets;
  const auto& k = lengths.k_offsets.empty() ? q : lengths.k_offsets;
  return {.queries = {q[s], q[s + 1] - q[s]}, .keys = {k[s], k[s + 1] - k[s]}};
}

Piece batch_entry(const AttentionInputs<double>& inputs, int64_t b) {
  const auto& counts = inputs.lengths.key_counts;
  return {.batch = b,
          .queries = {0, inputs.q.tokens},
          .keys = {0, counts.empty() ? inputs.k.tokens : counts[b]}};
}

}  // namespace

std::vector<Piece> pieces_of(const AttentionInputs<double>& inputs,
                             const AttentionOptions& options) {
  const Lengths& lengths = inputs.lengths;
  const bool packed = !lengths.q_offsets.empty();
  const int64_t sequences =
      packed ? static_cast<int64_t>(lengths.q_offsets.size()) - 1 : inputs.q.batch;
  std::vector<Piece> pieces;
  for (int64_t s = 0; s < sequences; ++s) {
    Piece piece = packed ? packed_sequence(lengths, s) : batch_entry(inputs, s);
    piece.sequence = s;
    piece.options = options;
    if (!lengths.q_widths.empty()) piece.options.q_rope.width = lengths.q_widths[s];
    if (!lengths.k_widths.empty()) piece.options.k_rope.width = lengths.k_widths[s];
    for (int64_t h = 0; h < inputs.q.heads; ++h) {
      piece.q_head = h;
      piece.kv_head = h * inputs.k.heads / inputs.q.heads;
      pieces.push_back(piece);
    }
  }
  return pieces;
}

}  // namespace mala::reference
