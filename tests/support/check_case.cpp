// Runs both and compares; remembers what the definition gave.
#include "tests/support/check_case.h"

#include <map>
#include <string>

#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"

namespace mala::test {
namespace {

// The definition is slow, and layouts, alignment and instruction sets do not change it.
template <typename T>
const AttentionResults& expected_of(const AttentionProblem<T>& problem) {
  static std::map<std::string, AttentionResults> known;
  AttentionCase key = problem.about;
  key.misalign = 0;
  for (Layout& layout : key.layouts)
    if (layout != Layout::kShared) layout = Layout::kDense;
  const auto [at, is_new] = known.try_emplace(str(sizeof(T), " bytes ", describe(key)));
  if (is_new) at->second = run_reference(problem);
  return at->second;
}

}  // namespace

template <typename T>
void check_case(const AttentionCase& c) {
  const AttentionProblem<T> problem(well_conditioned(c));
  expect_close<T>(run_kernels(problem), expected_of(problem), problem.about);
}

template void check_case<float>(const AttentionCase&);
template void check_case<double>(const AttentionCase&);

}  // namespace mala::test
