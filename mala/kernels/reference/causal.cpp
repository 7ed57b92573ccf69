// The causal operator in double: token t sees the keys up to and including t.
#include "mala/kernels/reference/attention.h"
#include "mala/kernels/reference/head.h"

namespace mala::reference {

void causal_attention_forward(const AttentionInputs<double>& inputs,
                              const AttentionOptions& options, HeadsView<double> out) {
  for (int64_t b = 0; b < inputs.q.batch; ++b) {
    for (int64_t h = 0; h < inputs.q.heads; ++h) {
      const Head head(inputs, options, b, h);
      Sums sums = head.no_sums();
      for (int64_t t = 0; t < inputs.q.tokens; ++t) {
        add_key(sums, head.key(t), head.value(t));
        write_row(out.head(b, h), t, head.forward(t, sums));
      }
    }
  }
}

// Key t went into the sums of the queries from t on. So queries are taken into the gradient of
// the sums from the last to the first, and key t is served when query t has been.
void causal_attention_backward(const AttentionInputs<double>& inputs,
                               const AttentionOptions& options,
                               HeadsView<const double> out_gradient,
                               const AttentionGradients<double>& gradients) {
  for (int64_t b = 0; b < inputs.q.batch; ++b) {
    for (int64_t h = 0; h < inputs.q.heads; ++h) {
      const Head head(inputs, options, b, h);
      const MatrixView<const double> g = out_gradient.head(b, h);
      std::vector<QueryWeights> weights;
      Sums sums = head.no_sums();
      for (int64_t t = 0; t < inputs.q.tokens; ++t) {
        add_key(sums, head.key(t), head.value(t));
        weights.push_back(head.backward_query(t, sums, read_row(g, t), gradients));
      }
      Sums sums_gradient = head.no_sums();
      for (int64_t t = inputs.q.tokens - 1; t >= 0; --t) {
        head.add_query(t, weights[t], read_row(g, t), sums_gradient);
        head.backward_key(t, sums_gradient, gradients);
      }
    }
  }
}

}  // namespace mala::reference
