// The kernels run on a case between guard words, with scratch and state full of NaN.
#include <gtest/gtest.h>

#include "tests/support/attention_problem.h"
#include "tests/support/guarded.h"

namespace mala::test {
namespace {

template <typename T>
void run_backward(const AttentionProblem<T>& problem, std::span<const Compute<T>> state,
                  AttentionResults& results) {
  const AttentionCase& c = problem.about;
  GuardedGradients<T> gradients(problem);
  PoisonedMemory<std::byte> scratch(attention_scratch_bytes(problem.inputs(), problem.options),
                                    c.misalign);
  attention_backward<T>(problem.inputs(), problem.options, problem.out_gradient.view(), state,
                        gradients.views(), scratch.span());
  EXPECT_TRUE(gradients.guards_intact()) << "memory beside a gradient was written: " << describe(c);
  EXPECT_TRUE(scratch.guards_intact()) << "memory beside scratch was written: " << describe(c);
  results = gradients.with(results.out);
}

}  // namespace

template <typename T>
AttentionResults run_kernels(const AttentionProblem<T>& problem, Pass pass) {
  const AttentionCase& c = problem.about;
  const InputsCopy<T> before(problem);
  Tensor<T> out(problem.out_shape(), c.layouts[kOut], Role::kOutput, c.misalign);
  const int64_t state_size = attention_state_size(c.sequences(), c.kv_heads(), c.dim, c.value_dim);
  PoisonedMemory<Compute<T>> state(state_size, c.misalign);
  PoisonedMemory<std::byte> scratch(attention_scratch_bytes(problem.inputs(), problem.options),
                                    c.misalign);

  attention_forward<T>(problem.inputs(), problem.options, out.view(), state.span(), scratch.span());
  EXPECT_TRUE(out.guards_intact()) << "memory beside out was written: " << describe(c);
  EXPECT_TRUE(scratch.guards_intact()) << "memory beside scratch was written: " << describe(c);

  AttentionResults results{.out = out.values()};
  if (pass == Pass::kForwardBackward) run_backward<T>(problem, state.span(), results);
  EXPECT_TRUE(state.guards_intact()) << "memory beside the state was written: " << describe(c);
  EXPECT_TRUE(before.unchanged()) << "an input was written: " << describe(c);
  return results;
}

template AttentionResults run_kernels(const AttentionProblem<float>&, Pass);
template AttentionResults run_kernels(const AttentionProblem<double>&, Pass);
template AttentionResults run_kernels(const AttentionProblem<BFloat16>&, Pass);
template AttentionResults run_kernels(const AttentionProblem<Float16>&, Pass);

}  // namespace mala::test
