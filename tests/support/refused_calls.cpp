// Makes legal calls, and looks at how spoilt ones are refused.
#include "tests/support/refused_calls.h"

#include <gtest/gtest.h>

namespace mala::test {
namespace {

constexpr std::byte kUnwritten{0xa5};

Tensor<float> output_like(const Tensor<float>& x) {
  if (!x.exists()) return {};
  return {x.shape(), Layout::kDense, Role::kOutput};
}

using Entry = void (Call::*)() const;

void expect_refused_untouched(const Call& call, Entry entry, const std::string& where,
                              const Facts& facts) {
  expect_refused([&] { (call.*entry)(); }, where, facts);
  EXPECT_TRUE(call.untouched()) << "something was written before the check of " << facts.front();
}

}  // namespace

void expect_refused(const std::function<void()>& call, const std::string& where,
                    const Facts& facts) {
  try {
    call();
    ADD_FAILURE() << where << " took the call; expected a message with \"" << facts.front() << '"';
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_TRUE(message.starts_with("[" + where + "] ")) << message;
    for (const std::string& fact : facts)
      EXPECT_NE(message.find(fact), std::string::npos)
          << '"' << fact << "\" is not in: " << message;
  }
}

Call::Call(const AttentionCase& c)
    : problem(c),
      out_memory(output_like(problem.out_gradient)),
      dq(output_like(problem.q)),
      dk(output_like(problem.k)),
      dv(output_like(problem.v)),
      dlocal(output_like(problem.local)),
      dgate(output_like(problem.gate)),
      state_memory(attention_state_size(c.sequences(), c.kv_heads(), c.dim, c.value_dim),
                   guard_word<float>()),
      scratch_memory(attention_scratch_bytes(inputs, options), kUnwritten) {}

void Call::change_lengths(const std::function<void(CaseLengths&)>& change) {
  change(problem.about.lengths);
  inputs.lengths = problem.about.lengths.view();
}

bool Call::untouched() const {
  for (const Tensor<float>* x : {&out_memory, &dq, &dk, &dv, &dlocal, &dgate})
    for (const float y : x->memory())
      if (!is_guard_word(y)) return false;
  for (const float y : state_memory)
    if (!is_guard_word(y)) return false;
  for (const std::byte y : scratch_memory)
    if (y != kUnwritten) return false;
  return true;
}

void expect_all_refuse(const AttentionCase& legal, const Spoil& spoil, const Facts& facts) {
  Call call(legal);
  spoil(call);
  expect_refused_untouched(call, &Call::scratch_bytes, "attention_scratch_bytes", facts);
  expect_refused_untouched(call, &Call::forward, "attention_forward", facts);
  expect_refused_untouched(call, &Call::backward, "attention_backward", facts);
}

void expect_forward_refuses(const AttentionCase& legal, const Spoil& spoil, const Facts& facts) {
  Call call(legal);
  spoil(call);
  expect_refused_untouched(call, &Call::forward, "attention_forward", facts);
}

void expect_backward_refuses(const AttentionCase& legal, const Spoil& spoil, const Facts& facts) {
  Call call(legal);
  spoil(call);
  expect_refused_untouched(call, &Call::backward, "attention_backward", facts);
}

}  // namespace mala::test
