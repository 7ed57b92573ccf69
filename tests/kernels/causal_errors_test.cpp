// Wrong causal calls: each is refused with a message that helps, before anything is written.
#include <gtest/gtest.h>

#include <limits>

#include "mala/kernels/causal.h"
#include "tests/support/causal_problem.h"
#include "tests/support/refused_calls.h"

namespace mala::test {
namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kBatch = 3, kTokens = 5, kDim = 16, kValueDim = 24;
constexpr int64_t kStateSize = kBatch * 2 * (kDim * kValueDim + 2 * kDim + kValueDim);
constexpr int64_t kUnwrittenCount = -99;

CausalCase legal_case(int64_t tokens = kTokens) {
  CausalCase c = CausalCase::of(tokens, kDim, kValueDim);
  c.tokens.batch = kBatch;
  c.tokens.heads = 4;
  c.tokens.group = 2;
  c.tokens.set_tail(3);
  c.before = {4, 0, 7};
  return c;
}

// The same with ten tokens in three sequences.
CausalCase packed_case() {
  CausalCase c = legal_case();
  c.pack({4, 1, 5});
  return c;
}

template <typename To, typename From>
std::span<To> as_numbers(From* first, size_t count) {
  return {reinterpret_cast<To*>(const_cast<std::remove_const_t<From>*>(first)), count};
}

// A legal call with all its memory, for a test to spoil one thing in.
struct CausalCall : Call {
  explicit CausalCall(const CausalCase& c)
      : Call(c.tokens),
        sums(CausalProblem<float>(c).sums),
        counts(c.before),
        after_memory(sums.size(), guard_word<double>()),
        before_gradient_memory(after_memory),
        after_gradient_memory(sums),
        counts_memory(counts.size(), kUnwrittenCount) {
    const CausalInputs<float> legal = causal();
    const int64_t bytes = std::max(causal_forward_scratch_bytes(legal, options),
                                   causal_backward_scratch_bytes(legal, options));
    if (static_cast<int64_t>(scratch_memory.size()) < bytes)
      scratch_memory.resize(bytes, scratch_memory.front());
    scratch = scratch_memory;
  }

  std::vector<double> sums;
  Numbers counts;
  std::vector<double> after_memory, before_gradient_memory, after_gradient_memory;
  Numbers counts_memory;

  CausalState before{sums, counts};
  CausalStateAfter after{after_memory, counts_memory};
  std::span<const double> after_gradient = after_gradient_memory;
  std::span<double> before_gradient = before_gradient_memory;

  CausalInputs<float> causal() const { return {inputs, before}; }
  void forward_scratch() const { causal_forward_scratch_bytes(causal(), options); }
  void backward_scratch() const { causal_backward_scratch_bytes(causal(), options); }
  void go_forward() const { causal_forward<float>(causal(), options, out, after, scratch); }
  void go_backward() const {
    causal_backward<float>(causal(), options, {out_gradient, after_gradient},
                           {gradients, before_gradient}, scratch);
  }
  void step() const { causal_step<float>(inputs, options, out, after); }

  void set_counts(const Numbers& numbers) {
    counts = numbers;
    before.counts = counts;
  }

  bool nothing_written() const {
    for (const auto* memory : {&after_memory, &before_gradient_memory})
      for (const double y : *memory)
        if (!is_guard_word(y)) return false;
    for (const int64_t y : counts_memory)
      if (y != kUnwrittenCount) return false;
    return untouched();
  }
};

using CausalSpoil = std::function<void(CausalCall&)>;
using Entry = void (CausalCall::*)() const;

void expect_refusal(const CausalCase& legal, const CausalSpoil& spoil, Entry entry,
                    const std::string& where, const Facts& facts) {
  CausalCall call(legal);
  spoil(call);
  expect_refused([&] { (call.*entry)(); }, where, facts);
  EXPECT_TRUE(call.nothing_written()) << "something was written before " << facts.front();
}

void forward_refuses(const CausalSpoil& spoil, const Facts& facts,
                     const CausalCase& legal = legal_case()) {
  expect_refusal(legal, spoil, &CausalCall::go_forward, "causal_forward", facts);
}

void backward_refuses(const CausalSpoil& spoil, const Facts& facts,
                      const CausalCase& legal = legal_case()) {
  expect_refusal(legal, spoil, &CausalCall::go_backward, "causal_backward", facts);
}

// Whatever is wrong with the inputs, the options or the state before.
void all_refuse(const CausalSpoil& spoil, const Facts& facts,
                const CausalCase& legal = legal_case()) {
  expect_refusal(legal, spoil, &CausalCall::forward_scratch, "causal_forward_scratch_bytes", facts);
  expect_refusal(legal, spoil, &CausalCall::backward_scratch, "causal_backward_scratch_bytes",
                 facts);
  forward_refuses(spoil, facts, legal);
  backward_refuses(spoil, facts, legal);
}

CausalSpoil set(Numbers CaseLengths::*place, const Numbers& numbers) {
  return [=](CausalCall& c) {
    c.change_lengths([&](CaseLengths& lengths) { lengths.*place = numbers; });
  };
}

TEST(CausalErrors, LegalCallsAreTaken) {
  for (const CausalCase& legal : {legal_case(), packed_case(), legal_case(1)}) {
    CausalCall call(legal);
    EXPECT_TRUE(call.nothing_written());
    EXPECT_NO_THROW(call.go_forward());
    EXPECT_NO_THROW(call.go_backward());
    EXPECT_FALSE(call.nothing_written());
    call.before = {};
    call.after = {};
    call.after_gradient = {};
    call.before_gradient = {};
    EXPECT_NO_THROW(call.go_forward());
    EXPECT_NO_THROW(call.go_backward());
  }
}

TEST(CausalErrors, StatesOfAnotherSize) {
  const std::string needed = std::to_string(kStateSize);
  for (const int64_t size : {kStateSize - 1, kStateSize / 2, int64_t{1}}) {
    const Facts facts{"state", std::to_string(size), needed, "attention_state_size"};
    all_refuse([=](CausalCall& c) { c.before.sums = c.before.sums.first(size); }, facts);
    forward_refuses([=](CausalCall& c) { c.after.sums = c.after.sums.first(size); }, facts);
    backward_refuses([=](CausalCall& c) { c.after_gradient = c.after_gradient.first(size); },
                     facts);
    backward_refuses([=](CausalCall& c) { c.before_gradient = c.before_gradient.first(size); },
                     facts);
  }
  // A larger one is that of another shape.
  static std::vector<double> larger(kStateSize + 8);
  const Facts facts{"state", std::to_string(kStateSize + 8), needed};
  all_refuse([](CausalCall& c) { c.before.sums = larger; }, facts);
  forward_refuses([](CausalCall& c) { c.after.sums = larger; }, facts);
  backward_refuses([](CausalCall& c) { c.after_gradient = larger; }, facts);
  backward_refuses([](CausalCall& c) { c.before_gradient = larger; }, facts);
}

TEST(CausalErrors, CountsOfAnotherSize) {
  for (const Numbers& counts : {Numbers{4, 0}, Numbers{4, 0, 7, 1}}) {
    const Facts facts{"count", std::to_string(counts.size()), "3 sequences"};
    all_refuse([=](CausalCall& c) { c.set_counts(counts); }, facts);
    all_refuse([=](CausalCall& c) { c.set_counts(counts); }, facts, packed_case());
  }
  forward_refuses([](CausalCall& c) { c.after.counts = c.after.counts.first(2); },
                  {"count", "2", "3 sequences"});
}

TEST(CausalErrors, SumsWithoutCountsAndCountsWithoutSums) {
  const Facts both{"state", "sums", "counts", "both"};
  all_refuse([](CausalCall& c) { c.before.sums = {}; }, both);
  all_refuse([](CausalCall& c) { c.before.counts = {}; }, both);
  forward_refuses([](CausalCall& c) { c.after.sums = {}; }, both);
  forward_refuses([](CausalCall& c) { c.after.counts = {}; }, both);
}

TEST(CausalErrors, DamagedCounts) {
  for (const int64_t bad : {int64_t{-1}, int64_t{1} << 40, std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()}) {
    all_refuse(
        [=](CausalCall& c) {
          c.set_counts({4, bad, 7});
        },
        {"count 1", std::to_string(bad), "2^40"});
  }
}

// Sums of keys that the count does not know.
TEST(CausalErrors, SumsUnderACountOfZero) {
  for (const int64_t at : {kStateSize / kBatch, 2 * kStateSize / kBatch - 1}) {
    for (const double bad : {1e-300, std::numeric_limits<double>::quiet_NaN()})
      all_refuse([=](CausalCall& c) { c.sums[at] = bad; }, {"count 1", "is 0", "sums"});
  }
}

TEST(CausalErrors, MoreKeysThanQueriesOrFewer) {
  for (const int64_t keys : {kTokens - 1, kTokens + 1}) {
    all_refuse([=](CausalCall& c) { c.inputs.k.tokens = c.inputs.v.tokens = keys; },
               {"q has 5 tokens", "k has " + std::to_string(keys)});
  }
}

TEST(CausalErrors, OffsetsOfKeysThatDifferFromThoseOfQueries) {
  all_refuse(set(&CaseLengths::k_offsets, {0, 3, 5, 10}), {"k_offsets", "q_offsets", "leave"},
             packed_case());
  all_refuse(set(&CaseLengths::k_offsets, {0, 4, 10}), {"k_offsets", "q_offsets"}, packed_case());
  all_refuse(set(&CaseLengths::q_offsets, {}), {"k_offsets", "q_offsets"}, packed_case());
}

TEST(CausalErrors, OffsetsAndKeyCountsThatDoNotFit) {
  auto both_offsets = [](const Numbers& numbers) {
    return [=](CausalCall& c) {
      c.change_lengths([&](CaseLengths& x) { x.q_offsets = x.k_offsets = numbers; });
    };
  };
  all_refuse(both_offsets({0, 4, 4, 10}), {"q_offsets[2] is 4", "rise"}, packed_case());
  all_refuse(both_offsets({0, 4, 5, 11}), {"q_offsets[3] is 11", "10"}, packed_case());
  all_refuse(both_offsets({1, 4, 5, 10}), {"q_offsets[0] is 1", "begin at 0"}, packed_case());
  all_refuse(both_offsets({0, 2, 5}), {"batch of 3", "batch of 1"});
  all_refuse(set(&CaseLengths::key_counts, {5, 0, 5}), {"key_counts[1] is 0", "1 to 5"});
  all_refuse(set(&CaseLengths::key_counts, {5, 6, 5}), {"key_counts[1] is 6", "1 to 5"});
  all_refuse(set(&CaseLengths::key_counts, {5, 5}), {"key_counts has 2 numbers", "batch of 3"});
  all_refuse(set(&CaseLengths::key_counts, {10}), {"key_counts", "offsets"}, packed_case());
}

// A row for every token since the beginning: that of count 7 has 12.
TEST(CausalErrors, TablesTooShortForWhatCameBefore) {
  static const std::vector<float> numbers(200, 1.0f);
  auto table = [](int64_t rows) { return Rope::table(numbers.data(), numbers.data(), rows, 8); };
  all_refuse([=](CausalCall& c) { c.options.q_rope = table(11); }, {"q_rope", "11 rows", "12"});
  all_refuse([=](CausalCall& c) { c.options.k_rope = table(11); }, {"k_rope", "11 rows", "12"});
  all_refuse([=](CausalCall& c) { c.options.k_rope = table(4); }, {"k_rope", "4 rows"});
  CausalCall call(legal_case());
  call.options.q_rope = call.options.k_rope = table(12);
  EXPECT_NO_THROW(call.go_forward());
  EXPECT_NO_THROW(call.go_backward());
  // Packed, the longest with what came before it is the last: 5 + 7.
  all_refuse([=](CausalCall& c) { c.options.q_rope = table(11); }, {"q_rope", "11 rows", "12"},
             packed_case());
}

TEST(CausalErrors, ScratchThatIsTooSmall) {
  const CausalCall legal(legal_case());
  const int64_t forward = causal_forward_scratch_bytes(legal.causal(), legal.options),
                backward = causal_backward_scratch_bytes(legal.causal(), legal.options);
  ASSERT_GT(forward, 0);
  ASSERT_GT(backward, 0);
  forward_refuses([=](CausalCall& c) { c.scratch = c.scratch.first(forward - 1); },
                  {"scratch", std::to_string(forward - 1), std::to_string(forward)});
  backward_refuses([=](CausalCall& c) { c.scratch = c.scratch.first(backward - 1); },
                   {"scratch", std::to_string(backward - 1), std::to_string(backward)});
}

// A state where tensors or scratch have their memory. It may be longer than that: all sequences
// have seen tokens in the tests below, so nobody reads it before it is refused.
template <typename From>
std::span<double> state_at(From* first) {
  return as_numbers<double>(first, kStateSize);
}

void expect_overlap(void (*refuses)(const CausalSpoil&, const Facts&, const CausalCase&),
                    const CausalSpoil& spoil) {
  CausalCase legal = legal_case();
  legal.before = {4, 2, 7};
  refuses(spoil, {"state", "shares memory"}, legal);
}

// The state after is written, so it shares memory with nothing but the state before, and that
// wholly.
TEST(CausalErrors, StatesThatOverlapForward) {
  auto refuse = [](const CausalSpoil& spoil) { expect_overlap(forward_refuses, spoil); };
  refuse([](CausalCall& c) { c.after.sums = state_at(c.inputs.q.data); });
  refuse([](CausalCall& c) { c.after.sums = state_at(c.inputs.gate.data); });
  refuse([](CausalCall& c) { c.after.sums = state_at(c.out.data); });
  refuse([](CausalCall& c) { c.after.sums = state_at(c.scratch.data()); });
  refuse([](CausalCall& c) { c.before.sums = state_at(c.out.data); });
  refuse([](CausalCall& c) { c.before.sums = state_at(c.scratch.data()); });
  refuse([](CausalCall& c) { c.after.counts = as_numbers<int64_t>(c.out.data, 3); });
  refuse([](CausalCall& c) { c.after.counts = as_numbers<int64_t>(c.after.sums.data(), 3); });
  static std::vector<double> longer(kStateSize + 8);
  refuse([](CausalCall& c) {
    c.before.sums = std::span(longer).first(kStateSize);
    c.after.sums = std::span(longer).subspan(8);
  });
  static std::vector<int64_t> counts(4, 5);
  refuse([](CausalCall& c) {
    c.before.counts = std::span(counts).first(3);
    c.after.counts = std::span(counts).subspan(1);
  });
}

TEST(CausalErrors, StatesThatOverlapBackward) {
  auto refuse = [](const CausalSpoil& spoil) { expect_overlap(backward_refuses, spoil); };
  refuse([](CausalCall& c) { c.before_gradient = state_at(c.inputs.k.data); });
  refuse([](CausalCall& c) { c.before_gradient = state_at(c.gradients.v.data); });
  refuse([](CausalCall& c) { c.before_gradient = state_at(c.out_gradient.data); });
  refuse([](CausalCall& c) { c.before_gradient = state_at(c.after_gradient.data()); });
  refuse([](CausalCall& c) { c.before_gradient = state_at(c.before.sums.data()); });
  refuse([](CausalCall& c) { c.before.sums = state_at(c.gradients.q.data); });
  refuse([](CausalCall& c) { c.after_gradient = state_at(c.gradients.k.data); });
  refuse([](CausalCall& c) { c.after_gradient = state_at(c.scratch.data()); });
}

TEST(CausalErrors, WhatIsWrongWithoutStatesIsWrongHere) {
  all_refuse([](CausalCall& c) { c.inputs.k.dim = 8; }, {"k ", "16", "8"});
  all_refuse([](CausalCall& c) { c.inputs.v.tokens = 4; }, {"v ", "4", "5", "token"});
  all_refuse([](CausalCall& c) { c.inputs.q.heads = 3; }, {"2 heads", "q has 3", "divide"});
  all_refuse([](CausalCall& c) { c.inputs.gate.dim = 16; }, {"gate", "(3, 4, 5, 16)"});
  all_refuse([](CausalCall& c) { c.inputs.q.data = nullptr; }, {"q ", "no data"});
  all_refuse([](CausalCall& c) { c.options.eps = -1; }, {"eps", "-1"});
  all_refuse([](CausalCall& c) { c.options.norm = static_cast<Norm>(3); }, {"norm", "3"});
  all_refuse([](CausalCall& c) { c.options.q_rope = Rope::line(-1); }, {"q_rope", "offset", "-1"});
  all_refuse([](CausalCall& c) { c.options.k_rope = Rope::grid(0); }, {"k_rope", "width", "0"});
  forward_refuses([](CausalCall& c) { c.out.dim = kDim; },
                  {"out", "(3, 4, 5, 16)", "(3, 4, 5, 24)"});
  forward_refuses([](CausalCall& c) { c.out.token_stride = 0; }, {"out", "stride"});
  forward_refuses([](CausalCall& c) { c.out.data = const_cast<float*>(c.inputs.v.data); },
                  {"out", "shares memory"});
  backward_refuses([](CausalCall& c) { c.out_gradient.tokens = 4; },
                   {"out_gradient", "(3, 4, 4, 24)", "(3, 4, 5, 24)"});
  backward_refuses([](CausalCall& c) { c.gradients.k.heads = 1; },
                   {"gradient of k", "(3, 1, 5, 16)", "(3, 2, 5, 16)"});
  backward_refuses([](CausalCall& c) { c.gradients.gate = {}; }, {"gradient of gate", "missing"});
  backward_refuses([](CausalCall& c) { c.gradients.v.data = c.gradients.k.data; },
                   {"gradient of", "shares memory"});
}

// Steps work on their state in place, so it is compared with what it was.
void step_refuses(const CausalSpoil& spoil, const Facts& facts, int64_t tokens = 1) {
  CausalCall call(legal_case(tokens));
  std::vector<double> sums = call.sums;
  Numbers counts = call.counts;
  call.after = {sums, counts};
  spoil(call);
  const Numbers counts_before(call.after.counts.begin(), call.after.counts.end());
  expect_refused([&] { call.step(); }, "causal_step", facts);
  EXPECT_TRUE(call.nothing_written() && sums == call.sums) << facts.front();
  EXPECT_TRUE(std::equal(counts_before.begin(), counts_before.end(), call.after.counts.begin()))
      << facts.front();
}

TEST(CausalErrors, Steps) {
  CausalCall legal(legal_case(1));
  legal.after = {legal.sums, legal.counts};
  EXPECT_NO_THROW(legal.step());
  EXPECT_EQ(legal.counts, (Numbers{5, 1, 8}));

  step_refuses([](CausalCall&) {}, {"5 tokens", "one"}, 5);
  step_refuses(set(&CaseLengths::key_counts, {1, 1, 1}), {"key counts", "causal_forward"});
  step_refuses(
      [](CausalCall& c) {
        c.change_lengths([](CaseLengths& x) { x.q_offsets = x.k_offsets = {0, 1}; });
      },
      {"offsets", "causal_forward"});
  step_refuses(set(&CaseLengths::q_widths, {2, 3, 4}), {"widths", "causal_forward"});
  step_refuses(set(&CaseLengths::k_widths, {2, 3, 4}), {"widths", "causal_forward"});
  step_refuses([](CausalCall& c) { c.after = {}; }, {"no state", "0"});
  step_refuses([](CausalCall& c) { c.after.sums = c.after.sums.first(8); },
               {"state", "8", std::to_string(kStateSize), "attention_state_size"});
  step_refuses([](CausalCall& c) { c.after.counts = c.after.counts.first(2); },
               {"2", "3 sequences"});
  step_refuses([](CausalCall& c) { c.after.counts = {}; }, {"state", "sums", "counts", "both"});
  for (const int64_t bad : {int64_t{-1}, int64_t{1} << 40})
    step_refuses([=](CausalCall& c) { c.after.counts[2] = bad; },
                 {"count 2", std::to_string(bad), "2^40"});
  static const std::vector<float> numbers(200, 1.0f);
  step_refuses(
      [](CausalCall& c) { c.options.k_rope = Rope::table(numbers.data(), numbers.data(), 7, 8); },
      {"k_rope", "7 rows", "8"});
  step_refuses([](CausalCall& c) { c.inputs.k.dim = 8; }, {"k ", "16", "8"});
  step_refuses([](CausalCall& c) { c.out.heads = 2; }, {"out", "(3, 2, 1, 24)", "(3, 4, 1, 24)"});
  step_refuses([](CausalCall& c) { c.out.data = const_cast<float*>(c.inputs.q.data); },
               {"out", "shares memory"});
  step_refuses([](CausalCall& c) { c.out.data = reinterpret_cast<float*>(c.after.sums.data()); },
               {"state", "shares memory", "out"});
}

}  // namespace
}  // namespace mala::test
