// The causal kernels run on a case between guard words, with scratch and outputs full of NaN.
#include <gtest/gtest.h>

#include "tests/support/causal_problem.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"

namespace mala::test {
namespace {

template <typename T>
void run_forward(const CausalProblem<T>& problem, CausalResults& results) {
  const CausalCase& c = problem.about;
  const int64_t misalign = c.tokens.misalign;
  Tensor<T> out(problem.tokens.out_shape(), c.tokens.layouts[kOut], Role::kOutput, misalign);
  PoisonedMemory<double> sums(c.after ? c.state_size() : 0, misalign);
  PoisonedMemory<int64_t> counts(c.after ? c.tokens.sequences() : 0, misalign);
  PoisonedMemory<std::byte> scratch(
      causal_forward_scratch_bytes(problem.inputs(), problem.tokens.options), misalign);
  causal_forward<T>(problem.inputs(), problem.tokens.options, out.view(),
                    {sums.span(), counts.span()}, scratch.span());
  EXPECT_TRUE(out.guards_intact()) << "memory beside out was written: " << describe(c);
  EXPECT_TRUE(sums.guards_intact() && counts.guards_intact())
      << "memory beside the state was written: " << describe(c);
  EXPECT_TRUE(scratch.guards_intact()) << "memory beside scratch was written: " << describe(c);
  results.tokens.out = out.values();
  results.after.assign(sums.span().begin(), sums.span().end());
  results.counts.assign(counts.span().begin(), counts.span().end());
}

template <typename T>
void run_backward(const CausalProblem<T>& problem, CausalResults& results) {
  const CausalCase& c = problem.about;
  const int64_t misalign = c.tokens.misalign;
  GuardedGradients<T> gradients(problem.tokens);
  PoisonedMemory<double> before(c.before_gradient ? c.state_size() : 0, misalign);
  PoisonedMemory<std::byte> scratch(
      causal_backward_scratch_bytes(problem.inputs(), problem.tokens.options), misalign);
  causal_backward<T>(problem.inputs(), problem.tokens.options,
                     {problem.tokens.out_gradient.view(), problem.after_gradient},
                     {gradients.views(), before.span()}, scratch.span());
  EXPECT_TRUE(gradients.guards_intact()) << "memory beside a gradient was written: " << describe(c);
  EXPECT_TRUE(before.guards_intact())
      << "memory beside the gradient of the state was written: " << describe(c);
  EXPECT_TRUE(scratch.guards_intact()) << "memory beside scratch was written: " << describe(c);
  results.tokens = gradients.with(results.tokens.out);
  results.before_gradient.assign(before.span().begin(), before.span().end());
}

}  // namespace

template <typename T>
CausalResults run_kernels(const CausalProblem<T>& problem, Pass pass) {
  const InputsCopy<T> inputs(problem.tokens);
  const std::vector<double> sums = problem.sums, after_gradient = problem.after_gradient;
  CausalResults results;
  run_forward(problem, results);
  if (pass == Pass::kForwardBackward) run_backward(problem, results);
  EXPECT_TRUE(inputs.unchanged()) << "an input was written: " << describe(problem.about);
  EXPECT_TRUE(same_bits(sums, problem.sums) && same_bits(after_gradient, problem.after_gradient))
      << "the state before or a gradient was written: " << describe(problem.about);
  return results;
}

template CausalResults run_kernels(const CausalProblem<float>&, Pass);
template CausalResults run_kernels(const CausalProblem<double>&, Pass);
template CausalResults run_kernels(const CausalProblem<BFloat16>&, Pass);
template CausalResults run_kernels(const CausalProblem<Float16>&, Pass);

}  // namespace mala::test
