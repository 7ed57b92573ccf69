// A text whole, in chunks, and token by token, from C++: what one call hands to the next is a state
// of the same size, however long the text.
#include "mala/kernels/causal.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace mala;

constexpr int64_t kTokens = 100, kDim = 32;

// Some rows of one head, from token `begin` on.
HeadsView<float> rows(std::vector<float>& x, int64_t begin, int64_t tokens) {
  return dense_heads(x.data() + begin * kDim, 1, 1, tokens, kDim);
}

struct Text {
  std::vector<float> tokens = std::vector<float>(kTokens * kDim), out = tokens;
  // The state at the beginning is all zeros.
  std::vector<double> sums = std::vector<double>(attention_state_size(1, 1, kDim, kDim));
  std::vector<int64_t> counts = {0};
  AttentionOptions options = {};  // of the rule mala, so causal calls take the balanced norm

  Text() {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::sin(0.37f * static_cast<float>(i));
    options.q_rope = options.k_rope = Rope::line();
  }

  // Goes on where the state ended, and leaves it for the next call, where it lies.
  void add_chunk(int64_t begin, int64_t end) {
    const HeadsView<float> x = rows(tokens, begin, end - begin);
    const CausalInputs<float> inputs{.tokens = {.q = x, .k = x, .v = x},
                                     .before = {.sums = sums, .counts = counts}};
    std::vector<std::byte> scratch(causal_forward_scratch_bytes(inputs, options));
    causal_forward<float>(inputs, options, rows(out, begin, end - begin),
                          {.sums = sums, .counts = counts}, scratch);
  }

  void add_token(int64_t n) {
    const HeadsView<float> x = rows(tokens, n, 1);
    causal_step<float>({.q = x, .k = x, .v = x}, options, rows(out, n, 1),
                       {.sums = sums, .counts = counts});
  }
};

int main() try {
  Text whole, parts;
  whole.add_chunk(0, kTokens);
  parts.add_chunk(0, 61);
  parts.add_chunk(61, 90);
  for (int64_t n = 90; n < kTokens; ++n) parts.add_token(n);
  float most = 0;
  for (size_t i = 0; i < whole.out.size(); ++i) {
    most = std::max(most, std::abs(whole.out[i] - parts.out[i]));
  }
  std::printf("%d tokens, largest difference %.1e\n", static_cast<int>(parts.counts[0]), most);
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
