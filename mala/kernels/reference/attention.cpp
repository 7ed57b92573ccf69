// The bidirectional operator in double: every query sees every key.
#include "mala/kernels/reference/attention.h"

#include "mala/kernels/reference/head.h"

namespace mala::reference {
namespace {

Sums sum_keys(const Head& head, int64_t keys) {
  Sums sums = head.no_sums();
  for (int64_t j = 0; j < keys; ++j) add_key(sums, head.key(j), head.value(j));
  return sums;
}

}  // namespace

void attention_forward(const AttentionInputs<double>& inputs, const AttentionOptions& options,
                       HeadsView<double> out) {
  for (int64_t b = 0; b < inputs.q.batch; ++b) {
    for (int64_t h = 0; h < inputs.q.heads; ++h) {
      const Head head(inputs, options, b, h);
      const Sums sums = sum_keys(head, inputs.k.tokens);
      for (int64_t i = 0; i < inputs.q.tokens; ++i)
        write_row(out.head(b, h), i, head.forward(i, sums));
    }
  }
}

void attention_backward(const AttentionInputs<double>& inputs, const AttentionOptions& options,
                        HeadsView<const double> out_gradient,
                        const AttentionGradients<double>& gradients) {
  for (int64_t b = 0; b < inputs.q.batch; ++b) {
    for (int64_t h = 0; h < inputs.q.heads; ++h) {
      const Head head(inputs, options, b, h);
      const Sums sums = sum_keys(head, inputs.k.tokens);
      Sums sums_gradient = head.no_sums();
      for (int64_t i = 0; i < inputs.q.tokens; ++i) {
        const Row g = read_row(out_gradient.head(b, h), i);
        head.add_query(i, head.backward_query(i, sums, g, gradients), g, sums_gradient);
      }
      for (int64_t j = 0; j < inputs.k.tokens; ++j) head.backward_key(j, sums_gradient, gradients);
    }
  }
}

}  // namespace mala::reference
