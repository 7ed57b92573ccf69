// The bidirectional operator in double: every query sees every key of its sequence.
#include "mala/kernels/reference/attention.h"

#include "mala/kernels/reference/head.h"

namespace mala::reference {
namespace {

Sums sum_keys(const Head& head) {
  Sums sums = head.no_sums();
  for (int64_t j = 0; j < head.keys(); ++j) add_key(sums, head.key(j), head.value(j));
  return sums;
}

}  // namespace

void attention_forward(const AttentionInputs<double>& inputs, const AttentionOptions& options,
                       HeadsView<double> out) {
  for (const Piece& piece : pieces_of(inputs, options)) {
    const Head head(piece.inputs(inputs), piece.options);
    const Sums sums = sum_keys(head);
    for (int64_t i = 0; i < head.queries(); ++i)
      write_row(piece.of_queries(out), i, head.forward(i, sums));
  }
}

void attention_backward(const AttentionInputs<double>& inputs, const AttentionOptions& options,
                        HeadsView<const double> out_gradient,
                        const AttentionGradients<double>& gradients) {
  set_zero(gradients.k);
  set_zero(gradients.v);
  for (const Piece& piece : pieces_of(inputs, options)) {
    const Head head(piece.inputs(inputs), piece.options);
    const HeadMatrices<double> head_gradients = piece.gradients(gradients);
    const Sums sums = sum_keys(head);
    Sums sums_gradient = head.no_sums();
    for (int64_t i = 0; i < head.queries(); ++i) {
      const Row g = read_row(piece.of_queries(out_gradient), i);
      head.add_query(i, head.backward_query(i, sums, g, head_gradients), g, sums_gradient);
    }
    for (int64_t j = 0; j < head.keys(); ++j) head.backward_key(j, sums_gradient, head_gradients);
  }
}

}  // namespace mala::reference
