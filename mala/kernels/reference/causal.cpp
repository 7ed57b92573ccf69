// The causal operator in double: token t sees what came before the call, and the keys of its
// sequence up to and including t.
#include "mala/kernels/reference/causal.h"

#include <algorithm>

#include "mala/kernels/reference/head.h"
#include "mala/kernels/rule.h"

namespace mala::reference {
namespace {

// Positions go on from those before; a table goes on from their last row.
Rope moved_on(Rope rope, int64_t count) {
  rope.offset += count;
  if (rope.kind != Rope::Kind::kTable) return rope;
  rope.cos += count * rope.table_stride;
  rope.sin += count * rope.table_stride;
  rope.table_rows -= count;
  return rope;
}

// One query head of one sequence and what came before it.
class CausalHead {
 public:
  CausalHead(const CausalInputs<double>& inputs, const Piece& piece)
      : head_(piece.inputs(inputs.tokens), going_on(inputs, piece)),
        sums_(head_.no_sums()),
        state_at_((piece.sequence * inputs.tokens.k.heads + piece.kv_head) *
                  attention_state_size(1, 1, inputs.tokens.q.dim, inputs.tokens.v.dim)) {
    sums_.count = count_before(inputs, piece);
    if (!inputs.before.sums.empty()) read_sums(&inputs.before.sums[state_at_], sums_);
  }

  const Head& head() const { return head_; }
  const Sums& sums() const { return sums_; }
  int64_t state_at() const { return state_at_; }  // where all states hold that of this head

  // The keys that token t sees. Tokens beyond the key count bring none.
  const Sums& see(int64_t t) {
    if (t < head_.keys()) add_key(sums_, head_.key(t), head_.value(t));
    return sums_;
  }

 private:
  static int64_t count_before(const CausalInputs<double>& inputs, const Piece& piece) {
    return inputs.before.counts.empty() ? 0 : inputs.before.counts[piece.sequence];
  }
  static AttentionOptions going_on(const CausalInputs<double>& inputs, const Piece& piece) {
    const int64_t count = count_before(inputs, piece);
    AttentionOptions options = piece.options;
    options.norm = norm_of(options, true);
    options.q_rope = moved_on(options.q_rope, count);
    options.k_rope = moved_on(options.k_rope, count);
    return options;
  }

  Head head_;
  Sums sums_;
  int64_t state_at_;
};

// The first of the query heads that share a head of keys, and so a state.
bool leads_its_group(const Piece& piece, const AttentionInputs<double>& inputs) {
  return piece.q_head % (inputs.q.heads / inputs.k.heads) == 0;
}

}  // namespace

// The state after may be the very memory of the state before, so it is written at the end.
void causal_forward(const CausalInputs<double>& inputs, const AttentionOptions& options,
                    HeadsView<double> out, const CausalStateAfter& after) {
  Row sums(after.sums.size());
  std::vector<int64_t> counts(after.counts.size());
  for (const Piece& piece : pieces_of(inputs.tokens, options)) {
    CausalHead causal(inputs, piece);
    for (int64_t t = 0; t < causal.head().queries(); ++t)
      write_row(piece.of_queries(out), t, causal.head().forward(t, causal.see(t)));
    if (!sums.empty()) write_sums(causal.sums(), &sums[causal.state_at()]);
    if (!counts.empty()) counts[piece.sequence] = causal.sums().count;
  }
  std::copy(sums.begin(), sums.end(), after.sums.begin());
  std::copy(counts.begin(), counts.end(), after.counts.begin());
}

// Key t went into the sums of the queries from t on, and into those left after the call. So the
// gradient of the sums begins with that of the state after, queries are taken into it from the
// last to the first, and key t is served when query t has been; what is left is the gradient of
// the state before. Heads of a group share their state, whose gradient counts once.
void causal_backward(const CausalInputs<double>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<double>& from,
                     const CausalInputGradients<double>& to) {
  set_zero(to.tokens.k);
  set_zero(to.tokens.v);
  Row before(to.before.size());
  for (const Piece& piece : pieces_of(inputs.tokens, options)) {
    CausalHead causal(inputs, piece);
    const Head& head = causal.head();
    const HeadMatrices<double> gradients = piece.gradients(to.tokens);
    const MatrixView<const double> g = piece.of_queries(from.out);
    std::vector<QueryWeights> weights;
    for (int64_t t = 0; t < head.queries(); ++t)
      weights.push_back(head.backward_query(t, causal.see(t), read_row(g, t), gradients));

    Sums sums_gradient = head.no_sums();
    if (!from.after.empty() && leads_its_group(piece, inputs.tokens))
      read_sums(&from.after[causal.state_at()], sums_gradient);
    for (int64_t t = head.queries() - 1; t >= 0; --t) {
      head.add_query(t, weights[t], read_row(g, t), sums_gradient);
      if (t < head.keys()) head.backward_key(t, sums_gradient, gradients);
    }
    if (!before.empty()) add_sums(sums_gradient, &before[causal.state_at()]);
  }
  std::copy(before.begin(), before.end(), to.before.begin());
}

}  // namespace mala::reference
