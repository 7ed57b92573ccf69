// Runs the kernels and the definition, and compares.
#include "tests/support/check_case.h"

#include "tests/support/compare.h"
#include "tests/support/expected_of.h"

namespace mala::test {

template <typename T>
void check_case(const AttentionCase& c) {
  const AttentionProblem<T> problem(well_conditioned(c));
  expect_close<T>(run_kernels(problem), expected_of<T>(problem), problem.about);
}

template <typename T>
void check_case(const CausalCase& c) {
  const CausalProblem<T> problem(well_conditioned(c));
  expect_close<T>(run_kernels(problem), expected_of<T>(problem), problem.about);
}

#define MALA_INSTANTIATE(T)                          \
  template void check_case<T>(const AttentionCase&); \
  template void check_case<T>(const CausalCase&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
