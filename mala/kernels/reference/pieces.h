// A call cut into pieces: one query head of one sequence each, for which the definition is written.
#pragma once

#include <cstdint>
#include <vector>

#include "mala/kernels/attention.h"

namespace mala::reference {

struct Stretch {
  int64_t first = 0, count = 0;
};

// The matrices of one piece; `local` and `gate` may be absent (no data).
template <typename T>
struct HeadMatrices {
  MatrixView<T> q = {}, k = {}, v = {}, local = {}, gate = {};
};

// One query head of one sequence: of a batch entry with the keys that count in it, or of one of
// the sequences that are packed into a single entry.
struct Piece {
  int64_t sequence = 0, batch = 0, q_head = 0, kv_head = 0;
  Stretch queries = {}, keys = {};
  AttentionOptions options = {};  // those of the call, with the width of this sequence's image

  template <typename T>
  MatrixView<T> of_queries(const HeadsView<T>& x) const {
    return cut(x, q_head, queries);
  }
  template <typename T>
  MatrixView<T> of_keys(const HeadsView<T>& x) const {
    return cut(x, kv_head, keys);
  }

  HeadMatrices<const double> inputs(const AttentionInputs<double>& all) const {
    return {of_queries(all.q), of_keys(all.k), of_keys(all.v), of_queries(all.local),
            of_queries(all.gate)};
  }
  HeadMatrices<double> gradients(const AttentionGradients<double>& all) const {
    return {of_queries(all.q), of_keys(all.k), of_keys(all.v), of_queries(all.local),
            of_queries(all.gate)};
  }

 private:
  template <typename T>
  MatrixView<T> cut(const HeadsView<T>& x, int64_t head, const Stretch& tokens) const {
    if (!x.data) return {};
    MatrixView<T> matrix = x.head(batch, head);
    matrix.data = matrix.row(tokens.first);
    matrix.rows = tokens.count;
    return matrix;
  }
};

// Keys that are packed without offsets of their own have those of the queries.
std::vector<Piece> pieces_of(const AttentionInputs<double>& inputs,
                             const AttentionOptions& options);

}  // namespace mala::reference
