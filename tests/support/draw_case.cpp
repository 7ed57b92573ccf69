// Random legal calls of the operator, drawn over everything a caller may ask for.
#include "tests/support/draw_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "mala/core/error.h"

namespace mala::test {
namespace {

uint64_t chosen_seed() {
  const char* asked = std::getenv("MALA_TEST_SEED");
  return asked ? std::strtoull(asked, nullptr, 10) : 20260101;
}

uint64_t seed_of(const std::string& isa, uint64_t seed) {
  for (const char letter : isa) seed = 31 * seed + static_cast<unsigned char>(letter);
  return seed;
}

constexpr int64_t kLargeHead = 200'000, kLargeCall = 4 * kLargeHead;

// Small most of the time, now and then beyond one block of tokens.
int64_t draw_tokens(Random& random) {
  return random.integer(0, 19) == 0 ? random.integer(1, 400) : random.integer(1, 30);
}

int64_t draw_dim(Random& random) {
  return 8 * (random.integer(0, 14) == 0 ? random.integer(1, 32) : random.integer(1, 6));
}

Rope draw_rope(Random& random) {
  switch (random.pick<Rope::Kind>({kRopeKinds.begin(), kRopeKinds.end()})) {
    case Rope::Kind::kLine:
      return Rope::line(random.integer(0, 2000));
    case Rope::Kind::kGrid:
      return Rope::grid(random.integer(1, 30), random.integer(0, 300));
    case Rope::Kind::kTable:
      return {.kind = Rope::Kind::kTable};
    case Rope::Kind::kNone:
      break;
  }
  return Rope::none();
}

AttentionOptions draw_options(Random& random) {
  AttentionOptions options = options_of(random.pick<Rule>({kRules.begin(), kRules.end()}),
                                        random.pick<Norm>({kNorms.begin(), kNorms.end()}),
                                        random.pick<Feature>({kFeatures.begin(), kFeatures.end()}));
  options.key_mean = random.integer(0, 3) != 0;
  if (random.coin()) options.scale = random.uniform(0.05, 1);
  if (random.coin()) options.eps = random.pick<double>({0, 1e-4, 0.1});
  options.q_rope = draw_rope(random);
  options.k_rope = random.coin() ? options.q_rope : draw_rope(random);
  return options;
}

// Small most of the time, now and then so many that the kernels split no tokens.
int64_t draw_sequences(Random& random) {
  return random.integer(0, 14) == 0 ? random.integer(50, 150) : random.integer(1, 5);
}

std::vector<int64_t> draw_lengths(Random& random, int64_t count, int64_t most) {
  std::vector<int64_t> lengths(count);
  for (int64_t& length : lengths) length = random.integer(1, most);
  return lengths;
}

// Nothing, key counts, or packed sequences; with widths where images have their own.
void draw_lengths(Random& random, AttentionCase& c) {
  const int64_t kind = random.integer(0, 2);
  if (kind == 1) {
    c.batch = draw_sequences(random);
    c.lengths.key_counts = draw_lengths(random, c.batch, c.keys);
  }
  if (kind == 2) {
    const int64_t sequences = draw_sequences(random);
    const std::vector<int64_t> q_lengths = draw_lengths(random, sequences, c.queries);
    c.pack(q_lengths, random.coin() ? q_lengths : draw_lengths(random, sequences, c.keys));
  }
  if (random.coin()) c.lengths.q_widths = draw_lengths(random, c.sequences(), 30);
  if (random.coin()) c.lengths.k_widths = draw_lengths(random, c.sequences(), 30);
}

// How much work the definition has with it.
int64_t work_of(const AttentionCase& c) {
  return c.batch * c.heads * (c.queries + c.keys) * c.dim * c.value_dim;
}

}  // namespace

AttentionCase draw_case(Random& random) {
  AttentionCase c;
  c.batch = random.integer(1, 3);
  c.group = random.coin() ? 1 : random.integer(2, 4);
  c.heads = c.group * random.integer(1, 2);
  c.queries = draw_tokens(random);
  c.keys = random.coin() ? c.queries : draw_tokens(random);
  c.dim = draw_dim(random);
  c.value_dim = random.coin() ? c.dim : draw_dim(random);
  // The definition is slow: large heads come one at a time.
  if ((c.queries + c.keys) * c.dim * c.value_dim > kLargeHead) c.batch = c.heads = c.group = 1;
  draw_lengths(random, c);
  while (work_of(c) > kLargeCall && (c.dim > 8 || c.value_dim > 8)) {
    c.dim = std::max<int64_t>(8, c.dim / 16 * 8);
    c.value_dim = std::max<int64_t>(8, c.value_dim / 16 * 8);
  }
  c.options = draw_options(random);
  c.set_tail(static_cast<int>(random.integer(0, 3)));
  for (int slot = 0; slot < kSlots; ++slot)
    c.layouts[slot] = random.pick(slot < kFirstOutput ? input_layouts() : output_layouts());
  c.misalign = random.integer(0, 3);
  c.seed = static_cast<uint64_t>(random.integer(1, 1'000'000));
  return well_conditioned(c);
}

void run_random_calls(const std::string& isa, int calls, const std::function<void(Random&)>& call) {
  const uint64_t seed = chosen_seed();
  std::cout << "MALA_TEST_SEED=" << seed << "\n";
  testing::Test::RecordProperty("seed", std::to_string(seed));
  Random random(seed_of(isa, seed));
  for (int i = 0; i < calls && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(str("call ", i, " of MALA_TEST_SEED=", seed, " with ", isa));
    call(random);
  }
}

}  // namespace mala::test
