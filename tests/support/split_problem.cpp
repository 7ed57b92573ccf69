// Cuts cases and problems into the shards of several callers.
#include "tests/support/split_problem.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "mala/core/error.h"

namespace mala::test {
namespace {

using Numbers = std::vector<int64_t>;

Numbers lengths_of(const Numbers& offsets) {
  Numbers lengths;
  for (size_t i = 1; i < offsets.size(); ++i) lengths.push_back(offsets[i] - offsets[i - 1]);
  return lengths;
}

// A caller's tokens within each sequence.
struct Stretch {
  int64_t begin, end;

  Stretch(const Numbers& cuts, int64_t caller)
      : begin(caller == 0 ? 0 : cuts[caller - 1]),
        end(caller < static_cast<int64_t>(cuts.size()) ? cuts[caller]
                                                       : std::numeric_limits<int64_t>::max()) {}

  int64_t of(int64_t tokens) const { return std::min(end, tokens) - begin; }
  Numbers of(const Numbers& tokens) const {
    Numbers own;
    for (const int64_t count : tokens) own.push_back(of(count));
    return own;
  }

  // Positions go on from caller to caller.
  Rope moved(Rope rope) const {
    if (rope.kind == Rope::Kind::kNone) return rope;
    if (rope.kind != Rope::Kind::kTable) {
      rope.offset += begin;
    } else if (rope.cos) {
      rope.cos += begin * rope.table_stride;
      rope.sin += begin * rope.table_stride;
      rope.table_rows -= begin;
    }
    return rope;
  }

  // Which tokens of a tensor they are.
  Numbers tokens(const Numbers& offsets, int64_t all) const {
    Numbers indices;
    auto add = [&](int64_t first, int64_t count) {
      for (int64_t i = 0; i < of(count); ++i) indices.push_back(first + begin + i);
    };
    if (offsets.empty()) add(0, all);
    for (size_t i = 1; i < offsets.size(); ++i) add(offsets[i - 1], offsets[i] - offsets[i - 1]);
    return indices;
  }
};

AttentionCase shard_case(const SplitCase& c, int64_t caller) {
  const Stretch queries(c.q_cuts, caller), keys(c.k_cuts, caller);
  AttentionCase own = c.whole;
  own.queries = queries.of(own.queries);
  own.keys = keys.of(own.keys);
  own.lengths.key_counts = keys.of(own.lengths.key_counts);
  if (own.packed())
    own.pack(queries.of(lengths_of(c.whole.lengths.q_offsets)),
             keys.of(lengths_of(c.whole.lengths.k_offsets)));
  own.options.q_rope = queries.moved(own.options.q_rope);
  own.options.k_rope = keys.moved(own.options.k_rope);
  return own;
}

// The values of some tokens of a tensor.
template <typename T>
void take_tokens(const Tensor<T>& all, const Numbers& tokens, Tensor<T>& own) {
  if (!all.exists()) return;
  const Shape& shape = all.shape();
  const std::vector<double> values = all.values();
  std::vector<double> taken;
  for (int64_t head = 0; head < shape.batch * shape.heads; ++head)
    for (const int64_t token : tokens) {
      const auto row = values.begin() + (head * shape.tokens + token) * shape.dim;
      taken.insert(taken.end(), row, row + shape.dim);
    }
  own.set_values(taken);
}

// The shortest sequence of one side.
int64_t shortest(const Numbers& counts, const Numbers& offsets, int64_t tokens) {
  const Numbers lengths = offsets.empty() ? counts : lengths_of(offsets);
  return lengths.empty() ? tokens : *std::min_element(lengths.begin(), lengths.end());
}

// One token for the first caller, and ever more for the next ones.
Numbers some_cuts(int64_t tokens, int64_t callers) {
  Numbers cuts;
  const int64_t spare = tokens - callers, all = callers * (callers + 1) / 2;
  for (int64_t i = 1; i < callers; ++i) cuts.push_back(i + spare * (i * (i - 1) / 2) / all);
  return cuts;
}

}  // namespace

SplitCase split_case(const AttentionCase& whole, int64_t callers) {
  const CaseLengths& l = whole.lengths;
  return {whole, some_cuts(shortest({}, l.q_offsets, whole.queries), callers),
          some_cuts(shortest(l.key_counts, l.k_offsets, whole.keys), callers)};
}

std::string describe(const SplitCase& c) {
  std::string text = describe(c.whole) + " q_cuts=";
  for (const int64_t cut : c.q_cuts) text += str(cut, ",");
  text += " k_cuts=";
  for (const int64_t cut : c.k_cuts) text += str(cut, ",");
  return text;
}

template <typename T>
Shard<T>::Shard(const SplitCase& c, const AttentionProblem<T>& whole, int64_t caller)
    : queries(Stretch(c.q_cuts, caller).tokens(c.whole.lengths.q_offsets, c.whole.queries)),
      keys(Stretch(c.k_cuts, caller).tokens(c.whole.lengths.k_offsets, c.whole.keys)),
      problem(shard_case(c, caller)) {
  problem.options.q_rope = Stretch(c.q_cuts, caller).moved(whole.options.q_rope);
  problem.options.k_rope = Stretch(c.k_cuts, caller).moved(whole.options.k_rope);
  take_tokens(whole.q, queries, problem.q);
  take_tokens(whole.k, keys, problem.k);
  take_tokens(whole.v, keys, problem.v);
  take_tokens(whole.local, queries, problem.local);
  take_tokens(whole.gate, queries, problem.gate);
  take_tokens(whole.out_gradient, queries, problem.out_gradient);
}

template <typename T>
KeysInputs<T> Shard<T>::keys_inputs() const {
  return {problem.k.view(), problem.v.view(), problem.about.lengths.view()};
}

template <typename T>
QueriesInputs<T> Shard<T>::queries_inputs() const {
  return {problem.q.view(), problem.local.view(), problem.gate.view(),
          problem.about.lengths.view()};
}

template <typename T>
std::vector<int64_t> Shard<T>::key_counts() const {
  const CaseLengths& lengths = problem.about.lengths;
  if (problem.about.packed()) return lengths_of(lengths.k_offsets);
  if (!lengths.key_counts.empty()) return lengths.key_counts;
  return Numbers(problem.about.batch, problem.about.keys);
}

template <typename T>
SplitProblem<T>::SplitProblem(const SplitCase& c) : about(c), whole(c.whole) {
  for (int64_t caller = 0; caller < c.callers(); ++caller)
    shards.push_back(std::make_unique<Shard<T>>(c, whole, caller));
}

#define MALA_INSTANTIATE(T) \
  template struct Shard<T>; \
  template struct SplitProblem<T>
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
