// Random legal calls of the operator, drawn over everything a caller may ask for, against the
// definition. MALA_TEST_SEED=n draws the calls of an earlier run again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "mala/kernels/attention.h"
#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"
#include "tests/support/every_isa.h"

namespace mala::test {
namespace {

constexpr int kCalls = 500;
constexpr int64_t kLargeHead = 200'000;

uint64_t chosen_seed() {
  const char* asked = std::getenv("MALA_TEST_SEED");
  return asked ? std::strtoull(asked, nullptr, 10) : 20260101;
}

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

AttentionCase draw_case(Random& random) {
  AttentionCase c;
  c.batch = random.integer(1, 3);
  c.heads = random.integer(1, 2);
  c.queries = draw_tokens(random);
  c.keys = random.coin() ? c.queries : draw_tokens(random);
  c.dim = draw_dim(random);
  c.value_dim = random.coin() ? c.dim : draw_dim(random);
  // The definition is slow: large heads come one at a time.
  if ((c.queries + c.keys) * c.dim * c.value_dim > kLargeHead) c.batch = c.heads = 1;
  c.options = draw_options(random);
  c.set_tail(static_cast<int>(random.integer(0, 3)));
  for (int slot = 0; slot < kSlots; ++slot)
    c.layouts[slot] = random.pick(slot < kFirstOutput ? input_layouts() : output_layouts());
  c.misalign = random.integer(0, 3);
  c.seed = static_cast<uint64_t>(random.integer(1, 1'000'000));
  return well_conditioned(c);
}

class AttentionProperty : public IsaTest {};

// Stops at the first call that fails: its message has the whole case.
TEST_P(AttentionProperty, RandomCallsAgreeWithTheDefinition) {
  const uint64_t seed = chosen_seed();
  std::cout << "MALA_TEST_SEED=" << seed << "\n";
  RecordProperty("seed", std::to_string(seed));
  Random random(seed);
  for (int call = 0; call < kCalls && !HasFailure(); ++call) {
    SCOPED_TRACE(str("call ", call, " of MALA_TEST_SEED=", seed));
    const AttentionCase c = draw_case(random);
    const ThreadCount threads(random.integer(0, 9) == 0 ? random.integer(2, 4) : 1);
    if (random.integer(0, 3) == 0) {
      const AttentionProblem<double> problem(c);
      expect_close<double>(run_kernels(problem), run_reference(problem), c);
    } else {
      const AttentionProblem<float> problem(c);
      expect_close<float>(run_kernels(problem), run_reference(problem), c);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionProperty, testing::ValuesIn(cpu::usable_isas()),
                         isa_name);

}  // namespace
}  // namespace mala::test
