// Legal calls of the halves, to be spoilt, and what their refusal must look like.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "mala/kernels/split.h"
#include "tests/support/refused_calls.h"

namespace mala::test {

using Numbers = std::vector<int64_t>;

// Legal calls of all halves with their memory; that of the whole operator has room enough.
struct SplitCall : Call {
  explicit SplitCall(const AttentionCase& c) : Call(c), counts(c.sequences(), c.keys) {}

  KeysInputs<float> keys{inputs.k, inputs.v, inputs.lengths};
  QueriesInputs<float> queries{inputs.q, inputs.local, inputs.gate, inputs.lengths};
  AttentionGradients<float> key_gradients{.k = gradients.k, .v = gradients.v};
  AttentionGradients<float> query_gradients{
      .q = gradients.q, .local = gradients.local, .gate = gradients.gate};

  std::vector<float> total_memory = std::vector<float>(state_memory.size(), 1.0f);
  std::vector<float> gradient_memory = state_memory;
  Numbers counts;
  int64_t value_dim = out.dim;
  TotalState<float> total{total_memory, counts, inputs.k.heads};
  std::span<const float> gradient_of_all = total_memory;
  std::span<float> gradient_of_own = gradient_memory;

  void keys_scratch() const { keys_scratch_bytes(keys, options); }
  void queries_scratch() const { queries_scratch_bytes(queries, options, total, value_dim); }
  void sum_keys() const { keys_forward<float>(keys, options, state, scratch); }
  void apply_queries() const { queries_forward<float>(queries, options, total, out, scratch); }
  void go_back_queries() const {
    queries_backward<float>(queries, options, total, out_gradient, query_gradients, gradient_of_own,
                            scratch);
  }
  void go_back_keys() const {
    keys_backward<float>(keys, options, gradient_of_all, key_gradients, scratch);
  }

  void set_counts(const Numbers& numbers) {
    counts = numbers;
    total.key_counts = counts;
  }
  void set_lengths(const std::function<void(CaseLengths&)>& change) {
    change_lengths(change);
    keys.lengths = queries.lengths = inputs.lengths;
  }
  bool nothing_written() const {
    for (const float y : gradient_memory)
      if (!is_guard_word(y)) return false;
    for (const float y : total_memory)
      if (y != 1.0f) return false;
    return untouched();
  }
};

struct Entry {
  const char* name;
  void (SplitCall::*run)() const;
};
constexpr Entry kKeysScratch{"keys_scratch_bytes", &SplitCall::keys_scratch};
constexpr Entry kQueriesScratch{"queries_scratch_bytes", &SplitCall::queries_scratch};
constexpr Entry kKeysForward{"keys_forward", &SplitCall::sum_keys};
constexpr Entry kQueriesForward{"queries_forward", &SplitCall::apply_queries};
constexpr Entry kQueriesBackward{"queries_backward", &SplitCall::go_back_queries};
constexpr Entry kKeysBackward{"keys_backward", &SplitCall::go_back_keys};

using SplitSpoil = std::function<void(SplitCall&)>;

inline void expect_refusal(const AttentionCase& legal, std::initializer_list<Entry> entries,
                           const SplitSpoil& spoil, const Facts& facts) {
  SplitCall call(legal);
  spoil(call);
  for (const Entry& entry : entries) {
    expect_refused([&] { (call.*entry.run)(); }, entry.name, facts);
    EXPECT_TRUE(call.nothing_written())
        << entry.name << " wrote before the check of " << facts.front();
  }
}

}  // namespace mala::test
