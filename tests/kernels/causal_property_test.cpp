// Random legal causal calls, drawn over everything a caller may ask for, against the definition: in
// one call, in chunks, and token by token.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/causal_forms.h"
#include "tests/support/compare.h"
#include "tests/support/draw_case.h"
#include "tests/support/draw_causal_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/sanitizers.h"

namespace mala::test {
namespace {

constexpr int kLeastCalls = kSanitized ? 60 : 200, kCallsOfAllIsas = kSanitized ? 200 : 800;

// In one call; and where there are no lengths, in the other forms.
template <typename T>
void check_forms(CausalCase c, Random& random) {
  const CaseLengths& lengths = c.tokens.lengths;
  const bool cut = lengths.key_counts.empty() && lengths.q_offsets.empty();
  if (cut) c.after = c.before_gradient = true;
  const CausalProblem<T> problem(c);
  CausalResults expected = run_reference(problem);
  expect_close<T>(run_kernels(problem), expected, c);
  if (!cut) return;
  const std::vector<int64_t> chunks = draw_chunks(random, c.tokens.queries);
  {
    SCOPED_TRACE(str("in ", chunks.size(), " chunks, the first of ", chunks.front()));
    expect_close<T>(run_in_chunks(problem, chunks, kernel_calls<T>()), expected, c);
  }
  if (!lengths.q_widths.empty() || !lengths.k_widths.empty()) return;  // steps have no lengths
  SCOPED_TRACE("token by token");
  expected.tokens = {.out = expected.tokens.out};
  expected.before_gradient.clear();
  expect_close<T>(run_by_steps(problem), expected, c);
}

class CausalProperty : public IsaTest {};

TEST_P(CausalProperty, RandomCallsAgreeWithTheDefinition) {
  const int isas = static_cast<int>(cpu::usable_isas().size());
  const int calls = std::max(kLeastCalls, (kCallsOfAllIsas + isas - 1) / isas);
  run_random_calls(GetParam(), calls, [](Random& random) {
    const CausalCase c = draw_causal_case(random);
    const ThreadCount threads(random.integer(0, 9) == 0 ? random.integer(2, 4) : 1);
    switch (random.integer(0, 5)) {
      case 0:
        return check_forms<double>(c, random);
      case 1:
        return check_forms<BFloat16>(c, random);
      case 2:  // without key_mean results may be larger than its largest number
        if (c.tokens.options.key_mean) return check_forms<Float16>(c, random);
        [[fallthrough]];
      default:
        return check_forms<float>(c, random);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, CausalProperty, testing::ValuesIn(test::tested_isas()),
                         isa_name);

}  // namespace
}  // namespace mala::test
