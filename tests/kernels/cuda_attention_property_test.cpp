// Random legal calls on the GPU, drawn over everything a caller may ask for, against the
// definition. MALA_TEST_SEED=n draws the calls of an earlier run again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "tests/kernels/cuda_attention_run.h"

namespace mala::test {
namespace {

constexpr int kCalls = 400;

int64_t draw_tokens(Random& random) {
  return random.integer(0, 9) == 0 ? random.integer(100, 700) : random.integer(1, 70);
}
int64_t draw_dim(Random& random) {
  return 8 * (random.integer(0, 9) == 0 ? random.integer(1, 32) : random.integer(1, 16));
}

Rope draw_rope(Random& random) {
  Rope rope = some_rope(random.pick<Rope::Kind>({kRopeKinds.begin(), kRopeKinds.end()}),
                        random.integer(0, 3000));
  rope.width = random.integer(1, 200);
  return rope;
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

std::vector<int64_t> draw_numbers(Random& random, int64_t count, int64_t most) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (int64_t& number : numbers) number = random.integer(1, most);
  return numbers;
}

void draw_lengths(Random& random, AttentionCase& c) {
  const int64_t kind = random.integer(0, 3);
  if (kind == 1) c.lengths.key_counts = draw_numbers(random, c.batch, c.keys);
  if (kind == 2) {
    const int64_t sequences = random.integer(1, 8);
    c.pack(draw_numbers(random, sequences, 1 + c.queries / 2),
           draw_numbers(random, sequences, 1 + c.keys / 2));
  }
  if (random.coin()) c.lengths.q_widths = draw_numbers(random, c.sequences(), 30);
  if (random.coin()) c.lengths.k_widths = draw_numbers(random, c.sequences(), 30);
}

AttentionCase draw_case(Random& random) {
  AttentionCase c;
  c.batch = random.integer(1, 3);
  c.group = random.coin() ? 1 : random.integer(2, 4);
  c.heads = c.group * random.integer(1, 2);
  c.queries = draw_tokens(random);
  c.keys = random.coin() ? c.queries : draw_tokens(random);
  c.dim = draw_dim(random);
  c.value_dim = random.coin() ? c.dim : draw_dim(random);
  draw_lengths(random, c);
  // The definition is slow.
  while (c.batch * c.heads * (c.queries + c.keys) * c.dim * c.value_dim > 4'000'000 && c.dim > 8) {
    c.dim = std::max<int64_t>(8, c.dim / 16 * 8);
    c.value_dim = std::max<int64_t>(8, c.value_dim / 16 * 8);
  }
  c.options = draw_options(random);
  c.set_tail(static_cast<int>(random.integer(0, 3)));
  for (int slot = 0; slot < kSlots; ++slot) {
    c.layouts[slot] = random.coin()         ? Layout::kDense
                      : slot < kFirstOutput ? random.pick(input_layouts())
                                            : random.pick(output_layouts());
  }
  c.misalign = random.coin() ? 0 : random.integer(1, 8);
  c.seed = static_cast<uint64_t>(random.integer(1, 1'000'000));
  return c;
}

class GpuAttentionProperty : public GpuTest {};

// Stops at the first call that fails: its message has the whole case.
TEST_F(GpuAttentionProperty, RandomCallsAgreeWithTheDefinition) {
  const char* asked = std::getenv("MALA_TEST_SEED");
  const uint64_t seed = asked ? std::strtoull(asked, nullptr, 10) : 20260101;
  std::cout << "MALA_TEST_SEED=" << seed << "\n";
  Random random(seed);
  for (int call = 0; call < kCalls && !HasFailure(); ++call) {
    SCOPED_TRACE(str("call ", call, " of MALA_TEST_SEED=", seed));
    const AttentionCase c = draw_case(random);
    const int64_t type = random.integer(0, 2);
    if (type == 0) check_on_gpu<float>(c);
    if (type == 1) check_on_gpu<BFloat16>(c);
    if (type == 2) check_on_gpu<Float16>(c);
  }
}

}  // namespace
}  // namespace mala::test
