// Cuts sequences out of cases and results.
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

// Tokens of one batch entry.
struct Stretch {
  int64_t batch = 0, first = 0, count = 0;
};

Stretch queries_of(const AttentionCase& c, int64_t sequence) {
  if (!c.packed()) return {sequence, 0, c.queries};
  const std::vector<int64_t>& offsets = c.lengths.q_offsets;
  return {0, offsets[sequence], offsets[sequence + 1] - offsets[sequence]};
}

Stretch keys_of(const AttentionCase& c, int64_t sequence) {
  const std::vector<int64_t>&offsets = c.lengths.k_offsets, &counts = c.lengths.key_counts;
  if (!c.packed()) return {sequence, 0, counts.empty() ? c.keys : counts[sequence]};
  return {0, offsets[sequence], offsets[sequence + 1] - offsets[sequence]};
}

// The same tokens of all heads of a dense result; one that has not its shape is left as it is.
std::vector<double> cut(const std::vector<double>& x, const Shape& shape, const Stretch& tokens) {
  if (static_cast<int64_t>(x.size()) != shape.size()) return x;
  std::vector<double> part;
  for (int64_t h = 0; h < shape.heads; ++h) {
    const int64_t row = (tokens.batch * shape.heads + h) * shape.tokens + tokens.first;
    const auto first = x.begin() + row * shape.dim;
    part.insert(part.end(), first, first + tokens.count * shape.dim);
  }
  return part;
}

}  // namespace

AttentionCase sequence_case(const AttentionCase& c, int64_t sequence) {
  AttentionCase one = c;
  one.lengths = {};
  one.batch = 1;
  one.queries = queries_of(c, sequence).count;
  one.keys = keys_of(c, sequence).count;
  if (!c.lengths.q_widths.empty()) one.options.q_rope.width = c.lengths.q_widths[sequence];
  if (!c.lengths.k_widths.empty()) one.options.k_rope.width = c.lengths.k_widths[sequence];
  return one;
}

AttentionResults sequence_results(const AttentionResults& all, const AttentionCase& c,
                                  int64_t sequence) {
  const Stretch queries = queries_of(c, sequence), keys = keys_of(c, sequence);
  const Shape out{c.batch, c.heads, c.queries, c.value_dim};
  return {.out = cut(all.out, out, queries),
          .q = cut(all.q, {c.batch, c.heads, c.queries, c.dim}, queries),
          .k = cut(all.k, {c.batch, c.kv_heads(), c.keys, c.dim}, keys),
          .v = cut(all.v, {c.batch, c.kv_heads(), c.keys, c.value_dim}, keys),
          .local = cut(all.local, out, queries),
          .gate = cut(all.gate, out, queries)};
}

std::vector<double> uncounted_gradients(const AttentionResults& all, const AttentionCase& c,
                                        int64_t entry) {
  if (c.lengths.key_counts.empty()) return {};
  const int64_t counted = c.lengths.key_counts[entry];
  const Stretch rest{entry, counted, c.keys - counted};
  std::vector<double> both = cut(all.k, {c.batch, c.kv_heads(), c.keys, c.dim}, rest);
  const std::vector<double> v = cut(all.v, {c.batch, c.kv_heads(), c.keys, c.value_dim}, rest);
  both.insert(both.end(), v.begin(), v.end());
  return both;
}

}  // namespace mala::test
