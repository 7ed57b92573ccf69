// Cuts sequences out of cases and results.
#include "tests/support/sequences.h"

#include <array>
#include <numeric>

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
  if (offsets.empty()) return queries_of(c, sequence);  // those of the causal form may be left out
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

// The states of one sequence; nothing of nothing.
std::vector<double> sequence_state(const std::vector<double>& states, const CausalCase& c,
                                   int64_t sequence) {
  if (states.empty()) return {};
  const auto size = static_cast<int64_t>(states.size()) / c.tokens.sequences();
  return {states.begin() + sequence * size, states.begin() + (sequence + 1) * size};
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

CausalCase sequence_case(const CausalCase& c, int64_t sequence) {
  CausalCase one = c;
  one.tokens = sequence_case(c.tokens, sequence);
  if (!c.before.empty()) one.before = {c.before[sequence]};
  return one;
}

CausalResults sequence_results(const CausalResults& all, const CausalCase& c, int64_t sequence) {
  CausalResults one{sequence_results(all.tokens, c.tokens, sequence),
                    sequence_state(all.after, c, sequence),
                    sequence_state(all.before_gradient, c, sequence),
                    {}};
  if (!all.counts.empty()) one.counts = {all.counts[sequence]};
  return one;
}

template <typename T>
void take_sequence(const AttentionProblem<T>& all, int64_t sequence, AttentionProblem<T>& alone) {
  const AttentionResults numbers =
      sequence_results({all.out_gradient.values(), all.q.values(), all.k.values(), all.v.values(),
                        all.local.values(), all.gate.values()},
                       all.about, sequence);
  alone.out_gradient.set_values(numbers.out);
  alone.q.set_values(numbers.q);
  alone.k.set_values(numbers.k);
  alone.v.set_values(numbers.v);
  alone.local.set_values(numbers.local);
  alone.gate.set_values(numbers.gate);
}

template <typename T>
void take_sequence(const CausalProblem<T>& all, int64_t sequence, CausalProblem<T>& alone) {
  take_sequence(all.tokens, sequence, alone.tokens);
  alone.sums = sequence_state(all.sums, all.about, sequence);
  alone.after_gradient = sequence_state(all.after_gradient, all.about, sequence);
}

template <typename T>
void take_tokens(const AttentionProblem<T>& all, int64_t first, AttentionProblem<T>& part) {
  auto take = [&](const Tensor<T>& from, Tensor<T>& to) {
    if (!to.exists()) return;
    std::vector<double> taken;
    for (int64_t b = 0; b < to.shape().batch; ++b) {
      const std::vector<double> more =
          cut(from.values(), from.shape(), {b, first, to.shape().tokens});
      taken.insert(taken.end(), more.begin(), more.end());
    }
    to.set_values(taken);
  };
  take(all.q, part.q);
  take(all.k, part.k);
  take(all.v, part.v);
  take(all.local, part.local);
  take(all.gate, part.gate);
  take(all.out_gradient, part.out_gradient);
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

std::vector<double> state_part(const std::vector<double>& states, const AttentionCase& c,
                               int64_t sequence, int part) {
  const std::array<int64_t, kStateParts> sizes{c.dim * c.value_dim, c.dim, c.dim, c.value_dim};
  const int64_t one = attention_state_size(1, 1, c.dim, c.value_dim), heads = c.kv_heads();
  if (static_cast<int64_t>(states.size()) != c.sequences() * heads * one) return states;
  const int64_t first = std::accumulate(sizes.begin(), sizes.begin() + part, int64_t{0});
  std::vector<double> parts;
  for (int64_t h = 0; h < heads; ++h) {
    const auto begin = states.begin() + (sequence * heads + h) * one + first;
    parts.insert(parts.end(), begin, begin + sizes[part]);
  }
  return parts;
}

#define MALA_INSTANTIATE(T)                                                               \
  template void take_sequence(const AttentionProblem<T>&, int64_t, AttentionProblem<T>&); \
  template void take_sequence(const CausalProblem<T>&, int64_t, CausalProblem<T>&);       \
  template void take_tokens(const AttentionProblem<T>&, int64_t, AttentionProblem<T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
