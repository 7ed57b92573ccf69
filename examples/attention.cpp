// Why the magnitude of a query matters, from C++: a longer query sharpens the weights of `mala`,
// while those of `linear` stay as they are.
#include "mala/kernels/attention.h"

#include <cstdio>
#include <vector>

using namespace mala;

constexpr int64_t kTokens = 1024, kDim = 64;

// One batch entry, one head, as many tokens as there are rows.
HeadsView<float> rows(std::vector<float>& x) {
  return dense_heads(x.data(), 1, 1, static_cast<int64_t>(x.size()) / kDim, kDim);
}

// Tokens of the kind `first` are large in the first half of the head, the others in the second.
float feature(bool first, int64_t j) { return first == (j < kDim / 2) ? 1.0f : 0.25f; }

struct Result {
  float share;  // of the attention that goes to the one key in eight that resembles the query
  float slope;  // its derivative with respect to the first element of q
};

Result attend(Rule rule, float length) {
  std::vector<float> q(kDim), k(kTokens * kDim), v(k.size()), out(kDim), out_gradient(kDim);
  for (int64_t j = 0; j < kDim; ++j) q[j] = length * feature(true, j);
  for (int64_t i = 0; i < kTokens * kDim; ++i) {
    const bool alike = i / kDim % 8 == 0;
    k[i] = feature(alike, i % kDim);
    v[i] = alike ? 1.0f : 0.0f;
  }

  const AttentionInputs<float> inputs{rows(q), rows(k), rows(v), {}, {}};  // no local, no gate
  AttentionOptions options;
  options.rule = rule;
  options.feature = Feature::kRelu;
  std::vector<float> state(attention_state_size(1, 1, kDim, kDim));
  std::vector<std::byte> scratch(attention_scratch_bytes(inputs, options));
  attention_forward<float>(inputs, options, rows(out), state, scratch);

  std::vector<float> dq(q.size()), dk(k.size()), dv(v.size());
  const AttentionGradients<float> gradients{rows(dq), rows(dk), rows(dv), {}, {}};
  out_gradient[0] = 1;
  attention_backward<float>(inputs, options, rows(out_gradient), state, gradients, scratch);
  return {out[0], dq[0]};
}

int main() try {
  std::printf("query length   mala share   slope   linear share   slope\n");
  for (const float length : {0.25f, 0.5f, 1.0f, 2.0f}) {
    const Result mala = attend(Rule::kMala, length), linear = attend(Rule::kLinear, length);
    std::printf("%12g %12.4f %7.4f %14.4f %7.4f\n", length, mala.share, mala.slope, linear.share,
                linear.slope);
  }
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
