// One call of the causal form, described by value: a case of as many keys as queries, and what
// came before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/attention_case.h"

namespace mala::test {

struct CausalCase {
  AttentionCase tokens{};         // queries and keys alike
  std::vector<int64_t> before{};  // (sequences): tokens before the call; empty: no state is given
  bool after = true;              // the state after the call is wanted, and has a gradient
  bool before_gradient = true;    // that of the state before is wanted

  // A case with so many tokens in every entry.
  static CausalCase of(int64_t tokens, int64_t dim, int64_t value_dim);

  void set_tokens(int64_t count) { tokens.queries = tokens.keys = count; }
  void set_rope(const Rope& rope) { tokens.options.q_rope = tokens.options.k_rope = rope; }
  void pack(const std::vector<int64_t>& lengths) { tokens.pack(lengths, lengths); }

  int64_t before_of(int64_t sequence) const { return before.empty() ? 0 : before[sequence]; }
  int64_t most_before() const;
  int64_t state_size() const;  // of all sequences
};

// As for cases without state: data on which results are exact to a few roundings.
CausalCase well_conditioned(CausalCase c);

std::string describe(const CausalCase& c);

}  // namespace mala::test
