// Random legal calls of the causal form, drawn over everything a caller may ask for.
#include "tests/support/draw_causal_case.h"

#include <algorithm>

#include "tests/support/draw_case.h"

namespace mala::test {
namespace {

// Long enough that the kernels split its tokens into parts.
void make_long(Random& random, AttentionCase& c) {
  c.lengths = {};
  c.batch = 1;
  c.heads = c.group;
  c.dim = c.value_dim = 8;
  c.queries = random.integer(512, 1100);
}

// Tokens with as many keys as queries, and the lengths that go with it.
AttentionCase draw_tokens(Random& random) {
  AttentionCase c = draw_case(random);
  if (random.integer(0, 29) == 0) make_long(random, c);
  c.keys = c.queries;
  for (int64_t& count : c.lengths.key_counts) count = random.integer(1, c.keys);
  if (c.packed()) {
    c.lengths.k_offsets = c.lengths.q_offsets;
    if (random.coin()) c.lengths.k_offsets.clear();
  }
  if (random.integer(0, 3) == 0) c.options.norm = {};
  return c;
}

// Now and then far into a text; not where a table would need a row for each token of it, nor where
// results grow with the tokens.
int64_t draw_count(Random& random, const AttentionOptions& options) {
  const bool table =
      options.q_rope.kind == Rope::Kind::kTable || options.k_rope.kind == Rope::Kind::kTable;
  if (random.integer(0, 3) == 0) return 0;
  return random.integer(0, 9) == 0 && !table && options.key_mean ? random.integer(1, 1'000'000)
                                                                 : random.integer(1, 100);
}

}  // namespace

CausalCase draw_causal_case(Random& random) {
  CausalCase c{.tokens = draw_tokens(random)};
  if (random.coin())
    for (int64_t s = 0; s < c.tokens.sequences(); ++s)
      c.before.push_back(draw_count(random, c.tokens.options));
  c.after = random.integer(0, 3) != 0;
  c.before_gradient = random.integer(0, 3) != 0;
  return well_conditioned(c);
}

std::vector<int64_t> draw_chunks(Random& random, int64_t tokens) {
  std::vector<int64_t> chunks;
  for (int64_t left = tokens; left > 0; left -= chunks.back())
    chunks.push_back(std::min(left, random.integer(0, 2) ? random.integer(1, 70) : 1));
  return chunks;
}

}  // namespace mala::test
