// Random legal calls whose tokens are spread over a random number of callers, against the
// definition of the whole.
#include <gtest/gtest.h>

#include "tests/support/draw_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/sanitizers.h"
#include "tests/support/split_problem.h"

namespace mala::test {
namespace {

class SplitProperty : public IsaTest {};

// So many tokens more in every sequence.
void lengthen(AttentionCase& c, int64_t tokens) {
  CaseLengths& lengths = c.lengths;
  for (int64_t& count : lengths.key_counts) count += tokens;
  for (std::vector<int64_t>* offsets : {&lengths.q_offsets, &lengths.k_offsets})
    for (size_t i = 0; i < offsets->size(); ++i) (*offsets)[i] += static_cast<int64_t>(i) * tokens;
  const int64_t sequences = c.packed() ? c.sequences() : 1;
  c.queries += sequences * tokens;
  c.keys += sequences * tokens;
}

TEST_P(SplitProperty, RandomCallsAgreeWithTheDefinition) {
  constexpr int kCalls = kSanitized ? 40 : 150;
  run_random_calls(GetParam(), kCalls, [](Random& random) {
    AttentionCase c = draw_case(random);
    const int64_t callers = random.integer(1, 5);
    lengthen(c, callers - 1);
    const ThreadCount threads(random.integer(0, 9) == 0 ? random.integer(2, 4) : 1);
    const SplitCase split = split_case(c, callers);
    switch (random.integer(0, 5)) {
      case 0:
        return check_case<double>(split);
      case 1:
        return check_case<BFloat16>(split);
      case 2:
        return check_case<Float16>(split);
      default:
        return check_case<float>(split);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, SplitProperty, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
