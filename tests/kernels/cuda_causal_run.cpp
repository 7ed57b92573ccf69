// Copies a causal problem to the device, runs it there, and brings the results back.
#include "tests/kernels/cuda_causal_run.h"

#include <gtest/gtest.h>

#include "mala/kernels/cuda/causal.h"
#include "tests/kernels/cuda_compare.h"
#include "tests/kernels/cuda_memory.h"
#include "tests/support/causal_forms.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

// What a call reads, on the device; the counts of a state before stay on the host.
template <typename T>
class DeviceInputs {
 public:
  explicit DeviceInputs(const CausalProblem<T>& problem)
      : problem_(problem),
        q_(problem.tokens.q),
        k_(problem.tokens.k),
        v_(problem.tokens.v),
        local_(problem.tokens.local),
        gate_(problem.tokens.gate),
        out_gradient_(problem.tokens.out_gradient),
        sums_(problem.sums),
        after_gradient_(problem.after_gradient) {}

  CausalInputs<T> views() const {
    return {{q_.view(), k_.view(), v_.view(), local_.view(), gate_.view(),
             problem_.about.tokens.lengths.view()},
            {sums_.span(), problem_.about.before}};
  }
  CausalOutputGradients<T> gradients() const {
    return {out_gradient_.view(), after_gradient_.span()};
  }
  const DeviceNumbers<double>& sums() const { return sums_; }

 private:
  const CausalProblem<T>& problem_;
  DeviceTensor<T> q_, k_, v_, local_, gate_, out_gradient_;
  DeviceNumbers<double> sums_, after_gradient_;
};

// Leaves the state in `sums`.
template <typename T>
void run_forward(const CausalProblem<T>& problem, const DeviceInputs<T>& inputs,
                 const DeviceNumbers<double>& sums, int left_behind, CausalResults& results) {
  const CausalCase& c = problem.about;
  const AttentionOptions& options = problem.tokens.options;
  Tensor<T> host_out(problem.tokens.out_shape(), c.tokens.layouts[kOut], Role::kOutput);
  const DeviceTensor<T> out(host_out);
  const DeviceNumbers<int64_t> counts(c.after ? c.tokens.sequences() : 0);
  const DeviceBytes scratch(gpu::causal_forward_scratch_bytes(inputs.views(), options),
                            left_behind);
  gpu::causal_forward<T>(inputs.views(), options, out.output(), {sums.span(), counts.span()},
                         {scratch.data(), scratch.size()}, nullptr);
  MALA_CUDA_CHECK(cudaDeviceSynchronize());
  out.copy_back(host_out);
  EXPECT_TRUE(host_out.guards_intact() && sums.guards_intact() && counts.guards_intact() &&
              scratch.guards_intact())
      << "memory beside what forward writes was written: " << describe(c);
  results.tokens.out = host_out.values();
  results.after = sums.copy_back();
  results.counts = counts.copy_back();
}

template <typename T>
void run_backward(const CausalProblem<T>& problem, const DeviceInputs<T>& inputs, int left_behind,
                  CausalResults& results) {
  const CausalCase& c = problem.about;
  const AttentionOptions& options = problem.tokens.options;
  GuardedGradients<T> host(problem.tokens);
  const DeviceTensor<T> q(host.q), k(host.k), v(host.v), local(host.local), gate(host.gate);
  const DeviceNumbers<double> before(c.before_gradient ? c.state_size() : 0);
  const DeviceBytes scratch(gpu::causal_backward_scratch_bytes(inputs.views(), options),
                            left_behind);
  gpu::causal_backward<T>(
      inputs.views(), options, inputs.gradients(),
      {{q.output(), k.output(), v.output(), local.output(), gate.output()}, before.span()},
      {scratch.data(), scratch.size()}, nullptr);
  MALA_CUDA_CHECK(cudaDeviceSynchronize());
  q.copy_back(host.q);
  k.copy_back(host.k);
  v.copy_back(host.v);
  local.copy_back(host.local);
  gate.copy_back(host.gate);
  EXPECT_TRUE(host.guards_intact() && before.guards_intact() && scratch.guards_intact())
      << "memory beside what backward writes was written: " << describe(c);
  results.tokens = host.with(results.tokens.out);
  results.before_gradient = before.copy_back();
}

// The gradient of a state comes from features and gradients in one part, as those of tokens do.
constexpr double kSumsGradientError = 0x1p-8;

void expect_states_close(const CausalResults& actual, const CausalResults& expected,
                         const CausalCase& c, int64_t sequence, double sums_error) {
  for (int part = 0; part < kStateParts; ++part) {
    auto error = [&](const std::vector<double>& x, const std::vector<double>& y) {
      return relative_error(state_part(x, c.tokens, sequence, part),
                            state_part(y, c.tokens, sequence, part));
    };
    EXPECT_LE(error(actual.after, expected.after), sums_error)
        << "part " << part << " of the state after the call is wrong\n  in the case "
        << describe(c);
    EXPECT_LE(error(actual.before_gradient, expected.before_gradient), kSumsGradientError)
        << "part " << part << " of the gradient of the state before is wrong\n  in the case "
        << describe(c);
  }
}

// float32 goes through tensor cores in two parts, whose sums are cut off and not rounded: some 1e-5
// on a GPU, and more where terms cancel.
constexpr double kFloatError = 1e-4;

void expect_floats_close(const AttentionResults& actual, const AttentionResults& expected) {
  using Part = std::vector<double> AttentionResults::*;
  for (const Part part : {&AttentionResults::out, &AttentionResults::q, &AttentionResults::k,
                          &AttentionResults::v, &AttentionResults::local, &AttentionResults::gate})
    EXPECT_LE(relative_error(actual.*part, expected.*part), kFloatError);
}

}  // namespace

template <typename T>
void expect_gpu_close(const CausalResults& actual, const CausalResults& expected,
                      const CausalCase& c, double sums_error) {
  EXPECT_EQ(actual.counts, expected.counts) << describe(c);
  for (int64_t s = 0; s < c.tokens.sequences(); ++s) {
    SCOPED_TRACE(str("sequence ", s, " of ", describe(c)));
    const AttentionCase one = sequence_case(c.tokens, s);
    const AttentionResults of_actual = sequence_results(actual.tokens, c.tokens, s);
    const AttentionResults of_expected = sequence_results(expected.tokens, c.tokens, s);
    if constexpr (std::is_same_v<T, float>) {
      expect_floats_close(of_actual, of_expected);
    } else {
      expect_roundings<T>(of_actual, of_expected, one, causal_sight_of(one, c.before_of(s)));
    }
    expect_states_close(actual, expected, c, s, sums_error);
    EXPECT_EQ(max_size(uncounted_gradients(actual.tokens, c.tokens, s)), 0)
        << "keys beyond the count have gradients";
  }
}

template <typename T>
CausalResults run_on_gpu(const CausalProblem<T>& problem, Pass pass, int left_behind) {
  const DeviceInputs inputs(problem);
  const DeviceNumbers<double> after(problem.about.after ? problem.about.state_size() : 0);
  CausalResults results;
  run_forward(problem, inputs, after, left_behind, results);
  if (pass == Pass::kForwardBackward) run_backward(problem, inputs, left_behind, results);
  return results;
}

CausalResults run_in_place_on_gpu(const CausalProblem<BFloat16>& problem) {
  const DeviceInputs inputs(problem);
  CausalResults results;
  run_forward(problem, inputs, inputs.sums(), kNanBytes, results);
  return results;
}

CausalResults run_steps_on_gpu(const CausalProblem<BFloat16>& problem) {
  using T = BFloat16;
  const CausalCase& c = problem.about;
  const DeviceInputs inputs(problem);
  Tensor<T> host_out(problem.tokens.out_shape(), c.tokens.layouts[kOut], Role::kOutput);
  const DeviceTensor<T> out(host_out);
  const bool begins = c.before.empty();
  const DeviceNumbers<double> sums(begins ? std::vector<double>(c.state_size()) : problem.sums);
  const DeviceNumbers<int64_t> counts(begins ? std::vector<int64_t>(c.tokens.sequences())
                                             : c.before);
  for (int64_t i = 0; i < c.tokens.queries; ++i) {
    gpu::causal_step<T>(tokens_of(inputs.views().tokens, i, 1), problem.tokens.options,
                        tokens_of(out.output(), i, 1), {sums.span(), counts.span()}, nullptr);
  }
  MALA_CUDA_CHECK(cudaDeviceSynchronize());
  out.copy_back(host_out);
  EXPECT_TRUE(host_out.guards_intact() && sums.guards_intact() && counts.guards_intact())
      << "memory beside what steps write was written: " << describe(c);
  return {{.out = host_out.values()}, sums.copy_back(), {}, counts.copy_back()};
}

void check_on_gpu(const CausalCase& c) {
  const CausalProblem<BFloat16> problem(well_conditioned(c));
  expect_gpu_close<BFloat16>(run_on_gpu(problem), run_reference(problem), problem.about);
}

void check_steps_on_gpu(const CausalCase& c) {
  const CausalProblem<BFloat16> problem(well_conditioned(c));
  CausalResults expected = run_reference(problem, Pass::kForward);
  expected.before_gradient.clear();
  expect_gpu_close<BFloat16>(run_steps_on_gpu(problem), expected, problem.about);
}

#define MALA_INSTANTIATE(T)                                                                        \
  template CausalResults run_on_gpu(const CausalProblem<T>&, Pass, int);                           \
  template void expect_gpu_close<T>(const CausalResults&, const CausalResults&, const CausalCase&, \
                                    double)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
