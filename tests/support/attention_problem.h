// The tensors of a case, and the operator run on them: by the definition and by the kernels.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/support/attention_case.h"

namespace mala::test {

// out, then the gradients of q, k, v, local and gate: dense (B, H, tokens, dim), as doubles, empty
// where absent.
struct AttentionResults {
  std::vector<double> out{}, q{}, k{}, v{}, local{}, gate{};
};

template <typename T>
struct AttentionProblem {
  explicit AttentionProblem(const AttentionCase& c);
  AttentionProblem(const AttentionProblem&) = delete;

  AttentionInputs<T> inputs() const;
  Shape out_shape() const { return {about.batch, about.heads, about.queries, about.value_dim}; }

  AttentionCase about;
  AttentionOptions options;  // those of the case, with the tables in place
  Tensor<T> q, k, v, local, gate;
  Tensor<T> out_gradient;

 private:
  Tensor<T> make_input(Slot slot, Shape shape) const;
  void spoil_uncounted(Tensor<T>& x, Slot slot) const;
  void fill_table(Rope& rope, std::vector<float>& table, int64_t tokens, uint64_t seed) const;
  std::vector<float> q_table_, k_table_;  // all cos, then all sin
};

enum class Form { kBidirectional, kCausal };
enum class Pass { kForward, kForwardBackward };

// The definition on the same numbers, in double.
template <typename T>
AttentionResults run_reference(const AttentionProblem<T>& problem, Form form = Form::kBidirectional,
                               Pass pass = Pass::kForwardBackward);

// The kernels that are in use, with everything they may not touch guarded, and scratch and state
// full of NaN. Fails the test if they write beside their outputs or to their inputs.
template <typename T>
AttentionResults run_kernels(const AttentionProblem<T>& problem,
                             Pass pass = Pass::kForwardBackward);

}  // namespace mala::test
