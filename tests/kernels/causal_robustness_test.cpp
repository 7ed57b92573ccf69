// What must not disturb the causal kernels: threads, neighbours, the future, what is beyond a
// count, earlier calls, and a million tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/causal_forms.h"
#include "tests/support/compare.h"
#include "tests/support/every_isa.h"
#include "tests/support/fenced_rows.h"
#include "tests/support/guarded.h"
#include "tests/support/reference_tensors.h"
#include "tests/support/sanitizers.h"
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

class CausalRobustness : public IsaTest {};

CausalCase some_case(int64_t batch, int64_t tokens, int64_t dim, int64_t value_dim) {
  CausalCase c = CausalCase::of(tokens, dim, value_dim);
  c.tokens.batch = batch;
  c.tokens.heads = 4;
  c.tokens.group = 2;
  c.tokens.set_tail(3);
  c.set_rope(Rope::line());
  for (int64_t b = 0; b < batch; ++b) c.before.push_back(b * 13 % 29);
  return c;
}

// Few sequences of many tokens, and many of few.
std::vector<CausalCase> plain_cases() {
  return {some_case(1, 1500, 16, 24), some_case(33, 40, 8, 8), some_case(2, 300, 64, 64)};
}

std::vector<CausalCase> counted_cases() {
  CausalCase few = some_case(3, 700, 16, 8), many = some_case(70, 40, 8, 16);
  few.tokens.lengths.key_counts = {700, 1, 333};
  for (int64_t b = 0; b < 70; ++b) many.tokens.lengths.key_counts.push_back(1 + b * 7 % 40);
  return {few, many};
}

std::vector<CausalCase> packed_cases() {
  CausalCase few = some_case(4, 1, 16, 24), many = some_case(100, 1, 8, 8);
  few.pack({600, 1, 90, 300});
  std::vector<int64_t> lengths;
  for (int64_t s = 0; s < 100; ++s) lengths.push_back(1 + s * 7 % 71);
  many.pack(lengths);
  return {few, many};
}

// The order of every sum is fixed by the sizes alone.
TEST_P(CausalRobustness, SameBitsForAnyThreadsRunAfterRun) {
  for (const auto& cases : {plain_cases(), counted_cases(), packed_cases()}) {
    for (CausalCase c : cases) {
      for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
        c.tokens.options.norm = norm;
        const CausalProblem<float> problem(c);
        const CausalResults first = run_kernels(problem);
        for (const int64_t threads : {1, 2, 5}) {
          if (kSanitized && threads != 5) continue;
          const ThreadCount scope(threads);
          EXPECT_TRUE(same_bits(run_kernels(problem), first))
              << threads << " threads, " << describe(c);
        }
      }
    }
  }
}

TEST_P(CausalRobustness, CountingAllKeysChangesNoBit) {
  for (CausalCase c : plain_cases()) {
    const CausalResults expected = run_kernels(CausalProblem<float>(c));
    c.tokens.lengths.key_counts.assign(c.tokens.batch, c.tokens.keys);
    EXPECT_TRUE(same_bits(run_kernels(CausalProblem<float>(c)), expected)) << describe(c);
  }
}

TEST_P(CausalRobustness, ASinglePackedSequenceIsTheCallWithoutOffsets) {
  CausalCase c = some_case(1, 700, 16, 8);
  const CausalResults expected = run_kernels(CausalProblem<float>(c));
  c.pack({700});
  EXPECT_TRUE(same_bits(run_kernels(CausalProblem<float>(c)), expected));
}

TEST_P(CausalRobustness, OffsetsOfTheKeysMayBeLeftOut) {
  for (CausalCase c : packed_cases()) {
    const CausalResults expected = run_kernels(CausalProblem<float>(c));
    c.tokens.lengths.k_offsets.clear();
    EXPECT_TRUE(same_bits(run_kernels(CausalProblem<float>(c)), expected)) << describe(c);
  }
}

// Keys beyond the count hold NaN in every test; here other numbers give the same bits.
TEST_P(CausalRobustness, WhatIsBeyondTheCountDoesNotMatter) {
  for (const CausalCase& c : counted_cases()) {
    CausalProblem<float> problem(c);
    const CausalResults with_nan = run_kernels(problem);
    for (Tensor<float>* x : {&problem.tokens.k, &problem.tokens.v}) {
      std::vector<double> values = x->values();
      for (double& value : values)
        if (std::isnan(value)) value = 1e30;
      x->set_values(values);
    }
    EXPECT_TRUE(same_bits(run_kernels(problem), with_nan)) << describe(c);
    const AttentionResults& r = with_nan.tokens;
    for (const auto* part : {&r.out, &r.q, &r.k, &r.v, &with_nan.after, &with_nan.before_gradient})
      for (const double x : *part) ASSERT_TRUE(std::isfinite(x)) << describe(c);
  }
}

// A read beyond the count would end this test.
TEST_P(CausalRobustness, KeysBeyondTheCountNeedNoMemory) {
  for (const int64_t counted : {1, 37, 300}) {
    CausalCase c = CausalCase::of(700, 24, 16);
    c.tokens.lengths.key_counts = {counted};
    c.set_rope(Rope::line());
    const CausalProblem<float> problem(c);
    const CausalResults expected = run_kernels(problem);
    auto fenced = [&](const Tensor<float>& x) {
      std::vector<double> values = x.values();
      values.resize(counted * x.shape().dim);
      return FencedRows(values, x.shape().tokens, x.shape().dim);
    };
    const FencedRows k = fenced(problem.tokens.k), v = fenced(problem.tokens.v);
    CausalInputs<float> inputs = problem.inputs();
    inputs.tokens.k = k.view();
    inputs.tokens.v = v.view();
    Tensor<float> out(problem.tokens.out_shape(), Layout::kDense);
    CausalResults results{.after = std::vector<double>(c.state_size()),
                          .before_gradient = std::vector<double>(c.state_size()),
                          .counts = {0}};
    GuardedGradients<float> gradients(problem.tokens);
    const CausalCalls<float> calls = kernel_calls<float>();
    calls.forward(inputs, c.tokens.options, out.view(), {results.after, results.counts});
    calls.backward(inputs, c.tokens.options,
                   {problem.tokens.out_gradient.view(), problem.after_gradient},
                   {gradients.views(), results.before_gradient});
    results.tokens = gradients.with(out.values());
    EXPECT_TRUE(same_bits(results, expected)) << counted << " keys";
  }
}

// Rows from `first` to `last` of a dense (1, H, tokens, dim) result.
std::vector<double> rows_of(const std::vector<double>& x, int64_t tokens, int64_t dim,
                            int64_t first, int64_t last) {
  std::vector<double> rows;
  for (size_t head = 0; head < x.size(); head += tokens * dim)
    rows.insert(rows.end(), x.begin() + head + first * dim, x.begin() + head + last * dim);
  return rows;
}

// Other numbers, and what is none: zero times NaN would give it away.
float other_number(int64_t token) {
  return token % 2 ? 70 : std::numeric_limits<float>::quiet_NaN();
}

// Tokens from the cut on hold other numbers: what comes before stays as it was, bit by bit.
TEST_P(CausalRobustness, NoTokenSeesTheFuture) {
  constexpr int64_t kTokens = 140;
  const CausalCase c = some_case(1, kTokens, 16, 24);
  const CausalResults expected = run_kernels(CausalProblem<float>(c));
  for (const int64_t cut : {1, 7, 17, 31, 63, 64, 65, 100, 139}) {
    CausalProblem<float> changed(c);
    AttentionProblem<float>& x = changed.tokens;
    for (Tensor<float>* tensor : {&x.q, &x.k, &x.v, &x.local, &x.gate})
      for (int64_t h = 0; h < tensor->shape().heads; ++h)
        for (int64_t t = cut; t < kTokens; ++t)
          tensor->view().head(0, h).at(t, t % 16) = other_number(t);
    auto before = [&](const CausalResults& all) {
      return rows_of(all.tokens.out, kTokens, 24, 0, cut);
    };
    EXPECT_TRUE(same_bits(before(run_kernels(changed, Pass::kForward)), before(expected)))
        << "cut at " << cut;
  }
}

// Backward it is the other way round: keys get nothing from queries before them.
TEST_P(CausalRobustness, NoKeyHearsOfThePast) {
  constexpr int64_t kTokens = 140;
  const CausalCase c = some_case(1, kTokens, 16, 24);
  const CausalResults expected = run_kernels(CausalProblem<float>(c));
  for (const int64_t cut : {1, 7, 17, 31, 63, 64, 65, 100, 139}) {
    CausalProblem<float> changed(c);
    Tensor<float>& g = changed.tokens.out_gradient;
    for (int64_t h = 0; h < g.shape().heads; ++h)
      for (int64_t t = 0; t < cut; ++t) g.view().head(0, h).at(t, t % 24) = other_number(t);
    const CausalResults results = run_kernels(changed);
    for (const auto& [part, dim] :
         {std::pair(&AttentionResults::q, 16), std::pair(&AttentionResults::k, 16),
          std::pair(&AttentionResults::v, 24)}) {
      EXPECT_TRUE(same_bits(rows_of(results.tokens.*part, kTokens, dim, cut, kTokens),
                            rows_of(expected.tokens.*part, kTokens, dim, cut, kTokens)))
          << "cut at " << cut;
    }
  }
}

// NaN in one sequence stays there, its state included.
TEST_P(CausalRobustness, NanInOneSequenceLeavesTheOthersAsTheyWere) {
  std::vector<CausalCase> cases = packed_cases();
  cases.push_back(some_case(5, 100, 16, 8));
  for (const CausalCase& c : cases) {
    CausalProblem<float> problem(c);
    const CausalResults clean = run_kernels(problem);
    constexpr int64_t kBad = 2;
    const int64_t size = c.state_size() / c.tokens.sequences();
    problem.sums[kBad * size + 3] = std::numeric_limits<double>::quiet_NaN();
    const CausalResults spoilt = run_kernels(problem);
    for (int64_t s = 0; s < c.tokens.sequences(); ++s) {
      EXPECT_EQ(same_bits(sequence_results(spoilt, c, s), sequence_results(clean, c, s)), s != kBad)
          << "sequence " << s << " of " << describe(c);
    }
  }
}

TEST_P(CausalRobustness, EarlierCallsLeaveNothingBehind) {
  const CausalProblem<float> problem(some_case(3, 100, 16, 24));
  const CausalResults first = run_kernels(problem);
  CausalProblem<float> other(some_case(1, 300, 64, 64));
  other.tokens.k.fill(std::numeric_limits<double>::quiet_NaN());
  run_kernels(other);
  EXPECT_TRUE(same_bits(run_kernels(problem), first));
}

// Views with stride 0 stand for any number of tokens here, without the memory.
TEST_P(CausalRobustness, ScratchOfForwardDoesNotGrowWithTokens) {
  std::vector<float> one(64);
  auto scratch_bytes = [&](int64_t tokens) {
    const HeadsView<const float> x{one.data(), 1, 1, tokens, 64, 0, 0, 0, 1};
    return causal_forward_scratch_bytes<float>({{x, x, x}, {}}, {});
  };
  EXPECT_EQ(scratch_bytes(100'000), scratch_bytes(10'000'000));
}

constexpr int64_t kFew = 1000, kMany = kSanitized ? 20'000 : 1'000'000;
constexpr int64_t kLast = 500;  // the tokens whose errors are looked at
constexpr double kTimesTheErrorOfFew = 2;

CausalCase long_case(int64_t tokens, Norm norm) {
  CausalCase c = CausalCase::of(tokens, 8, 8);
  c.tokens.options.norm = norm;
  if (norm == Norm::kBalanced) c.set_rope(Rope::line());
  return c;
}

template <typename T>
CausalResults forward_of(const AttentionInputs<T>& inputs, const CausalCase& c, HeadsView<T> out) {
  CausalResults results{.after = std::vector<double>(c.state_size()), .counts = {0}};
  kernel_calls<T>().forward({inputs, {}}, c.tokens.options, out, {results.after, results.counts});
  for (int64_t t = c.tokens.queries - kLast; t < c.tokens.queries; ++t)
    for (int64_t e = 0; e < out.dim; ++e) results.tokens.out.push_back(out.head(0, 0).at(t, e));
  return results;
}

CausalResults in_float(const CausalProblem<float>& problem) {
  Tensor<float> out(problem.tokens.out_shape(), Layout::kDense);
  return forward_of<float>(problem.tokens.inputs(), problem.about, out.view());
}

// The kernels in double on the same numbers: they are tested against the definition, which would
// take minutes here.
CausalResults in_double(const CausalProblem<float>& problem) {
  ReferenceTensors same(problem.tokens);
  return forward_of<double>(same.inputs(), problem.about, same.out());
}

// The root mean square over the last tokens, because the worst of many rows is worse than the worst
// of few whatever is summed.
double error_at_the_end(const CausalResults& actual, const CausalResults& expected) {
  const std::vector<double>& last = expected.tokens.out;
  const std::vector<double> same(actual.tokens.out.end() - last.size(), actual.tokens.out.end());
  double sum = 0;
  for (size_t i = 0; i < last.size(); ++i) sum += (same[i] - last[i]) * (same[i] - last[i]);
  return std::sqrt(sum / static_cast<double>(last.size()));
}

// The digits depend on the order of the sums, not on the instruction set: the best has a million
// tokens, the others a tenth.
int64_t many_tokens() {
  return cpu::current_isa() == cpu::usable_isas().front() ? kMany : kMany / 10;
}

// Sums in blocks: a thousand times the tokens do not cost digits.
TEST_P(CausalRobustness, AMillionTokensAreAsExactAsAThousand) {
  for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
    auto error_of = [norm](int64_t tokens) {
      const CausalProblem<float> problem(long_case(tokens, norm));
      return error_at_the_end(in_float(problem), in_double(problem));
    };
    const double few = error_of(kFew);
    EXPECT_GT(few, 1e-9);
    EXPECT_LT(error_of(many_tokens()), kTimesTheErrorOfFew * few)
        << "norm " << static_cast<int>(norm);
  }
}

// Token by token, where a float state would lose a hundred times this. The published norm loses
// more, so it has more tokens.
TEST_P(CausalRobustness, DecodingAMillionTokensKeepsItsDigits) {
  for (const auto& [norm, tokens] :
       {std::pair(Norm::kPublished, many_tokens()), std::pair(Norm::kBalanced, kMany / 10)}) {
    const CausalProblem<float> few(long_case(kFew, norm)), many(long_case(tokens, norm));
    const CausalResults expected = in_double(many), actual = run_by_steps(many);
    const double error_of_few = error_at_the_end(run_by_steps(few), in_double(few));
    EXPECT_GT(error_of_few, 1e-9);
    EXPECT_LT(error_at_the_end(actual, expected), kTimesTheErrorOfFew * error_of_few)
        << "norm " << static_cast<int>(norm);
    // Features are rounded to float, up and down alike, but their sums are not.
    EXPECT_LT(relative_error(actual.after, expected.after), 1e-8);
    EXPECT_EQ(actual.counts, expected.counts);
  }
}

// The sums over queries that backward makes, over all tokens of a long text.
TEST_P(CausalRobustness, ManyTokensCostNoDigitsBackward) {
  CausalCase c = long_case(kSanitized ? 3'000 : 30'000, Norm::kBalanced);
  c.before = {5};
  CausalProblem<float> problem(c);
  problem.tokens.out_gradient.fill(1);  // so that the sums grow with every query
  expect_close<float>(run_kernels(problem), run_reference(problem), c);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, CausalRobustness, testing::ValuesIn(test::tested_isas()),
                         isa_name);

}  // namespace
}  // namespace mala::test
