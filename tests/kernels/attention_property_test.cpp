// Random legal calls of the operator, drawn over everything a caller may ask for, against the
// definition.
#include <gtest/gtest.h>

#include <algorithm>

#include "mala/kernels/attention.h"
#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"
#include "tests/support/draw_case.h"
#include "tests/support/every_isa.h"

namespace mala::test {
namespace {

constexpr int kLeastCalls = 500, kCallsOfAllIsas = 1000;

class AttentionProperty : public IsaTest {};

TEST_P(AttentionProperty, RandomCallsAgreeWithTheDefinition) {
  const int isas = static_cast<int>(cpu::usable_isas().size());
  const int calls = std::max(kLeastCalls, (kCallsOfAllIsas + isas - 1) / isas);
  run_random_calls(GetParam(), calls, [](Random& random) {
    const AttentionCase c = draw_case(random);
    const ThreadCount threads(random.integer(0, 9) == 0 ? random.integer(2, 4) : 1);
    if (random.integer(0, 3) == 0) {
      const AttentionProblem<double> problem(c);
      expect_close<double>(run_kernels(problem), run_reference(problem), c);
    } else {
      const AttentionProblem<float> problem(c);
      expect_close<float>(run_kernels(problem), run_reference(problem), c);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionProperty, testing::ValuesIn(test::tested_isas()),
                         isa_name);

}  // namespace
}  // namespace mala::test
