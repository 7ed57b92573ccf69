// The causal operator in double: token t sees the keys of its sequence up to and including t.
#include "mala/kernels/reference/attention.h"
#include "mala/kernels/reference/head.h"

namespace mala::reference {

void causal_attention_forward(const AttentionInputs<double>& inputs,
                              const AttentionOptions& options, HeadsView<double> out) {
  for (const Piece& piece : pieces_of(inputs, options)) {
    const Head head(piece.inputs(inputs), piece.options);
    Sums sums = head.no_sums();
    for (int64_t t = 0; t < head.queries(); ++t) {
      add_key(sums, head.key(t), head.value(t));
      write_row(piece.of_queries(out), t, head.forward(t, sums));
    }
  }
}

// Key t went into the sums of the queries from t on. So queries are taken into the gradient of
// the sums from the last to the first, and key t is served when query t has been.
void causal_attention_backward(const AttentionInputs<double>& inputs,
                               const AttentionOptions& options,
                               HeadsView<const double> out_gradient,
                               const AttentionGradients<double>& gradients) {
  set_zero(gradients.k);
  set_zero(gradients.v);
  for (const Piece& piece : pieces_of(inputs, options)) {
    const Head head(piece.inputs(inputs), piece.options);
    const HeadMatrices<double> head_gradients = piece.gradients(gradients);
    const MatrixView<const double> g = piece.of_queries(out_gradient);
    std::vector<QueryWeights> weights;
    Sums sums = head.no_sums();
    for (int64_t t = 0; t < head.queries(); ++t) {
      add_key(sums, head.key(t), head.value(t));
      weights.push_back(head.backward_query(t, sums, read_row(g, t), head_gradients));
    }
    Sums sums_gradient = head.no_sums();
    for (int64_t t = head.queries() - 1; t >= 0; --t) {
      head.add_query(t, weights[t], read_row(g, t), sums_gradient);
      head.backward_key(t, sums_gradient, head_gradients);
    }
  }
}

}  // namespace mala::reference
