// Calls that must be refused: a legal one in which a test spoils one thing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mala/kernels/attention.h"
#include "tests/support/attention_problem.h"

namespace mala::test {

// A legal call with all its memory.
struct Call {
  explicit Call(const AttentionCase& c);

  AttentionProblem<float> problem;
  AttentionInputs<float> inputs = problem.inputs();
  AttentionOptions options = problem.options;
  HeadsView<const float> out_gradient = problem.out_gradient.view();

  Tensor<float> out_memory, dq, dk, dv, dlocal, dgate;
  std::vector<float> state_memory;
  std::vector<std::byte> scratch_memory;

  HeadsView<float> out = out_memory.view();
  AttentionGradients<float> gradients{dq.view(), dk.view(), dv.view(), dlocal.view(), dgate.view()};
  std::span<float> state = state_memory;
  std::span<std::byte> scratch = scratch_memory;

  // The lengths of the case, for a test to change: the inputs see the numbers as they are then.
  void change_lengths(const std::function<void(CaseLengths&)>& change);

  void scratch_bytes() const { attention_scratch_bytes(inputs, options); }
  void forward() const { attention_forward<float>(inputs, options, out, state, scratch); }
  void backward() const {
    attention_backward<float>(inputs, options, out_gradient, state, gradients, scratch);
  }
  bool untouched() const;  // whether nothing was written
};

using Spoil = std::function<void(Call&)>;
using Facts = std::vector<std::string>;

// Fails the running test unless the call throws an error that names the entry `where` and has all
// the facts in its message.
void expect_refused(const std::function<void()>& call, const std::string& where,
                    const Facts& facts);

// Each fails the running test unless the spoilt call is refused by an error that names the entry
// and has all the facts in its message, with nothing written. `all`: forward, backward and the size
// of the scratch alike, which is so for whatever is wrong with the inputs or the options.
void expect_all_refuse(const AttentionCase& legal, const Spoil& spoil, const Facts& facts);
void expect_forward_refuses(const AttentionCase& legal, const Spoil& spoil, const Facts& facts);
void expect_backward_refuses(const AttentionCase& legal, const Spoil& spoil, const Facts& facts);

}  // namespace mala::test
