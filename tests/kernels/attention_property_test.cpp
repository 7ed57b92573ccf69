// Random legal calls of the operator, drawn over everything a caller may ask for, against the
// definition.
#include <gtest/gtest.h>

#include <algorithm>

#include "mala/kernels/attention.h"
#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"
#include "tests/support/draw_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/sanitizers.h"

namespace mala::test {
namespace {

constexpr int kLeastCalls = kSanitized ? 150 : 500, kCallsOfAllIsas = kSanitized ? 300 : 1000;

template <typename T>
void check_case(const AttentionCase& c) {
  const AttentionProblem<T> problem(c);
  expect_close<T>(run_kernels(problem), run_reference(problem), c);
}

class AttentionProperty : public IsaTest {};

TEST_P(AttentionProperty, RandomCallsAgreeWithTheDefinition) {
  const int isas = static_cast<int>(cpu::usable_isas().size());
  const int calls = std::max(kLeastCalls, (kCallsOfAllIsas + isas - 1) / isas);
  run_random_calls(GetParam(), calls, [](Random& random) {
    AttentionCase c = draw_case(random);
    if (random.integer(0, 3) == 0) c.options.norm = {};
    const ThreadCount threads(random.integer(0, 9) == 0 ? random.integer(2, 4) : 1);
    switch (random.integer(0, 5)) {
      case 0:
        return check_case<double>(c);
      case 1:
        return check_case<BFloat16>(c);
      case 2:  // without key_mean results may be larger than its largest number
        if (c.options.key_mean) return check_case<Float16>(c);
        [[fallthrough]];
      default:
        return check_case<float>(c);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionProperty, testing::ValuesIn(test::tested_isas()),
                         isa_name);

}  // namespace
}  // namespace mala::test
