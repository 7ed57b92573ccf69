// Hands states on from call to call, and their gradients back.
#include "tests/support/causal_forms.h"

#include "mala/kernels/reference/causal.h"
#include "tests/support/guarded.h"

namespace mala::test {
namespace {

struct State {
  std::vector<double> sums;
  std::vector<int64_t> counts;
};

State zero_state(const CausalCase& c) {
  return {std::vector<double>(c.state_size()), std::vector<int64_t>(c.tokens.sequences())};
}

template <typename T>
Tensor<T> make_out(const CausalProblem<T>& problem) {
  return {problem.tokens.out_shape(), problem.about.tokens.layouts[kOut], Role::kOutput};
}

}  // namespace

CausalCalls<double> definition_calls() {
  return {reference::causal_forward, reference::causal_backward};
}

template <typename T>
CausalCalls<T> kernel_calls() {
  return {[](const CausalInputs<T>& inputs, const AttentionOptions& options, HeadsView<T> out,
             const CausalStateAfter& after) {
            PoisonedMemory<std::byte> scratch(causal_forward_scratch_bytes(inputs, options), 0);
            causal_forward<T>(inputs, options, out, after, scratch.span());
          },
          [](const CausalInputs<T>& inputs, const AttentionOptions& options,
             const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to) {
            PoisonedMemory<std::byte> scratch(causal_backward_scratch_bytes(inputs, options), 0);
            causal_backward<T>(inputs, options, from, to, scratch.span());
          }};
}

template <typename T>
CausalResults run_in_chunks(const CausalProblem<T>& problem, const std::vector<int64_t>& sizes,
                            const CausalCalls<T>& calls) {
  const CausalCase& c = problem.about;
  const AttentionOptions& options = problem.tokens.options;
  const AttentionInputs<T> all = problem.tokens.inputs();
  std::vector<State> states(sizes.size() + 1, zero_state(c));
  if (!c.before.empty()) states[0] = {problem.sums, c.before};
  // The first chunk of a case without a state has none either.
  auto before = [&](size_t chunk) -> CausalState {
    if (chunk == 0) return problem.before();
    return {states[chunk].sums, states[chunk].counts};
  };

  Tensor<T> out = make_out(problem);
  std::vector<int64_t> firsts;
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    calls.forward({tokens_of(all, first, sizes[i]), before(i)}, options,
                  tokens_of(out.view(), first, sizes[i]),
                  {states[i + 1].sums, states[i + 1].counts});
    firsts.push_back(first);
    first += sizes[i];
  }

  GuardedGradients<T> gradients(problem.tokens);
  std::vector<double> gradient = problem.after_gradient, gradient_before(c.state_size());
  for (size_t i = sizes.size(); i-- > 0;) {
    calls.backward({tokens_of(all, firsts[i], sizes[i]), before(i)}, options,
                   {tokens_of(problem.tokens.out_gradient.view(), firsts[i], sizes[i]), gradient},
                   {tokens_of(gradients.views(), firsts[i], sizes[i]), gradient_before});
    gradient = gradient_before;
  }
  return {gradients.with(out.values()), states.back().sums, gradient, states.back().counts};
}

template <typename T>
CausalResults run_by_steps(const CausalProblem<T>& problem) {
  const CausalCase& c = problem.about;
  State state = c.before.empty() ? zero_state(c) : State{problem.sums, c.before};
  Tensor<T> out = make_out(problem);
  for (int64_t t = 0; t < c.tokens.queries; ++t) {
    causal_step<T>(tokens_of(problem.tokens.inputs(), t, 1), problem.tokens.options,
                   tokens_of(out.view(), t, 1), {state.sums, state.counts});
  }
  return {{.out = out.values()}, state.sums, {}, state.counts};
}

#define MALA_INSTANTIATE(T)                                                                  \
  template CausalCalls<T> kernel_calls();                                                    \
  template CausalResults run_in_chunks(const CausalProblem<T>&, const std::vector<int64_t>&, \
                                       const CausalCalls<T>&);                               \
  template CausalResults run_by_steps(const CausalProblem<T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
