// Cases of the causal form: their data and their description.
#include "tests/support/causal_case.h"

#include <algorithm>
#include <cmath>

#include "mala/core/error.h"

namespace mala::test {

CausalCase CausalCase::of(int64_t tokens, int64_t dim, int64_t value_dim) {
  CausalCase c;
  c.set_tokens(tokens);
  c.tokens.dim = dim;
  c.tokens.value_dim = value_dim;
  return c;
}

int64_t CausalCase::most_before() const {
  return before.empty() ? 0 : *std::max_element(before.begin(), before.end());
}

int64_t CausalCase::state_size() const {
  return attention_state_size(tokens.sequences(), tokens.kv_heads(), tokens.dim, tokens.value_dim);
}

CausalCase well_conditioned(CausalCase c) {
  // The first query sees one key, and printed's r grows with all keys that are seen.
  AttentionCase most = c.tokens;
  most.lengths.key_counts = {1};
  most.keys += c.most_before();
  most = well_conditioned(most);
  c.tokens.q_low = most.q_low;
  c.tokens.k_low = most.k_low;
  c.tokens.options.eps = most.options.eps;
  return c;
}

std::string describe(const CausalCase& c) {
  std::string text = "causal " + describe(c.tokens);
  for (size_t s = 0; s < c.before.size(); ++s) text += str(s == 0 ? " before=" : ",", c.before[s]);
  if (!c.after) text += ", no state after";
  if (!c.before_gradient) text += ", no gradient before";
  return text;
}

}  // namespace mala::test
