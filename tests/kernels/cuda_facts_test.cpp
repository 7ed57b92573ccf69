// Theorems about the operator and its causal form, checked on the GPU: in each type, on each kind
// of kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/cuda_kinds.h"
#include "tests/support/compare.h"
#include "tests/support/facts.h"

namespace mala::test {
namespace {

template <typename T>
class GpuFacts : public GpuTest {};
TYPED_TEST_SUITE(GpuFacts, DeviceTypes, TypeNames);

template <typename T>
std::vector<double> out_of(const AttentionProblem<T>& problem, Form form) {
  return run_on_gpu(problem, form, Pass::kForward).out;
}
template <typename T>
std::vector<double> out_of(const AttentionCase& c, Form form) {
  return out_of(AttentionProblem<T>(c), form);
}

// Rows that sum to one leave constant values as they are. Three is a number of every type, and what
// is lost of the terms does not reach halfway to its neighbours in the narrow ones.
template <typename T>
void expect_constant_values_stay(const AttentionCase& c, Form form) {
  AttentionProblem<T> problem(c);
  problem.v.fill(3);
  const std::vector<double> out = out_of(problem, form);
  EXPECT_LE(max_error(out, std::vector<double>(out.size(), 3)),
            sizeof(T) == 2 ? 0 : 3 * allowed<T>(1, c, form))
      << describe(c);
}

TYPED_TEST(GpuFacts, BalancedRowsSumToOneForEveryEpsAndRope) {
  for (const Kernels& kernels : kKernels) {
    for (const Rule rule : kRules) {
      for (const Rope::Kind kind : {Rope::Kind::kNone, kernels.turned}) {
        AttentionCase c = case_of(kernels, rule, Norm::kBalanced, kind);
        c.options.eps = kind == Rope::Kind::kNone ? 0.5 : 0;
        expect_constant_values_stay<TypeParam>(c, kernels.form);
      }
    }
  }
}

TYPED_TEST(GpuFacts, PrintedAndRopeFreePublishedRowsSumToOneWithoutEps) {
  for (const Kernels& kernels : kKernels) {
    for (const Rule rule : kRules) {
      for (const bool printed : {true, false}) {
        // Along so short a line most pairs hardly turn, which keeps r away from zero.
        AttentionCase c = case_of(kernels, rule, printed ? Norm::kPrinted : Norm::kPublished,
                                  printed ? Rope::Kind::kLine : Rope::Kind::kNone);
        c.options.eps = 0;
        expect_constant_values_stay<TypeParam>(c, kernels.form);
      }
    }
  }
}

// With eps the rows of mala and linear sum to 1 - eps / (s + eps).
TYPED_TEST(GpuFacts, EpsTakesItsShareFromTheRowSum) {
  for (const Kernels& kernels : kKernels) {
    if (kernels.form == Form::kCausal) continue;  // s of all keys is known here
    for (const Rule rule : {Rule::kMala, Rule::kLinear}) {
      AttentionCase c = case_of(kernels, rule, Norm::kPublished, Rope::Kind::kNone);
      c.options.eps = 0.75;
      AttentionProblem<TypeParam> problem(c);
      problem.v.fill(1);
      const std::vector<double> out = out_of(problem, kernels.form), s = magnitudes(problem);
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(out[i], 1 - 0.75 / (s[i / c.value_dim] + 0.75),
                    allowed<TypeParam>(1, c, kernels.form));
    }
  }
}

// The mean of the values that each query sees.
template <typename T>
std::vector<double> mean_values(const AttentionProblem<T>& problem, const Sight& sight) {
  const std::vector<double> v = problem.v.values();
  const size_t dim = problem.about.value_dim;
  std::vector<double> means;
  for (const int64_t seen : sight) {
    for (size_t e = 0; e < dim; ++e) {
      double sum = 0;
      for (int64_t j = 0; j < seen; ++j) sum += v[j * dim + e];
      means.push_back(sum / static_cast<double>(seen));
    }
  }
  return means;
}

TYPED_TEST(GpuFacts, MalaIsInlinePlusLinearMinusTheMeanValue) {
  for (const Kernels& kernels : kKernels) {
    const Form form = kernels.form;
    for (const Norm norm : kNorms) {
      for (const Rope::Kind kind : {Rope::Kind::kNone, kernels.turned}) {
        AttentionCase c = well_conditioned(case_of(kernels, Rule::kMala, norm, kind));
        const AttentionProblem<TypeParam> problem(c);
        const std::vector<double> mala = out_of(problem, form);
        c.options.rule = Rule::kInline;
        std::vector<double> sum = out_of<TypeParam>(c, form);
        c.options.rule = Rule::kLinear;
        const std::vector<double> linear = out_of<TypeParam>(c, form);
        const std::vector<double> means = mean_values(problem, sight_of(c, form));
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += linear[i] - means[i];
        EXPECT_LE(max_error(mala, sum), 3 * allowed<TypeParam>(max_size(mala), c, form))
            << describe(c);
      }
    }
  }
}

TYPED_TEST(GpuFacts, TheThreeNormsAgreeWithoutRopeAndEps) {
  for (const Kernels& kernels : kKernels) {
    for (const Rule rule : kRules) {
      AttentionCase c = case_of(kernels, rule, Norm::kPublished, Rope::Kind::kNone);
      c.options.eps = 0;
      const std::vector<double> published = out_of<TypeParam>(c, kernels.form);
      for (const Norm norm : {Norm::kPrinted, Norm::kBalanced}) {
        c.options.norm = norm;
        EXPECT_LE(max_error(out_of<TypeParam>(c, kernels.form), published),
                  2 * allowed<TypeParam>(max_size(published), c, kernels.form))
            << describe(c);
      }
    }
  }
}

// Weights (N, M) for queries as they are and with features twice as long: for positive numbers
// elu1 is x + 1, and multiples of 1/64 below one are exact in every type, as twice their features
// are.
template <typename T>
std::array<std::vector<double>, 2> weights_at_two_lengths(Rule rule, int64_t dim, Form form) {
  AttentionCase c{.queries = dim, .keys = dim, .dim = dim, .value_dim = dim};
  c.options = options_of(rule, Norm::kPublished);
  c.options.eps = 0;
  AttentionProblem<T> problem(c);
  set_unit_values(problem);
  std::vector<double> q = problem.q.values();
  for (double& x : q) x = std::floor(std::abs(x) * 63) / 64 + 1.0 / 64;
  problem.q.set_values(q);
  std::array<std::vector<double>, 2> weights{out_of(problem, form)};
  for (double& x : q) x = 2 * (x + 1) - 1;
  problem.q.set_values(q);
  weights[1] = out_of(problem, form);
  return weights;
}

// The point of the operator: a query twice as long prefers more strongly. Weights are about 1 / M:
// pairs are looked at whose ratios roundings cannot turn round.
TYPED_TEST(GpuFacts, ALongerQuerySharpensMala) {
  constexpr double kLeastWeight = 0.3, kLeastRatio = 1.25;
  for (const Form form : {Form::kBidirectional, Form::kCausal}) {
    for (const size_t dim : {64, 24}) {
      const auto weights = weights_at_two_lengths<TypeParam>(Rule::kMala, dim, form);
      const size_t last = dim * (dim - 1);  // the row that sees all keys in both forms
      int64_t pairs = 0;
      for (size_t row = form == Form::kCausal ? last : 0; row <= last; row += dim) {
        for (size_t m = row; m < row + dim; ++m) {
          for (size_t n = row; n < row + dim; ++n) {
            const double p = weights[0][m] / weights[0][n];
            if (weights[1][n] * static_cast<double>(dim) < kLeastWeight || p < kLeastRatio)
              continue;
            EXPECT_GT(weights[1][m] / weights[1][n], p) << "keys " << m - row << ", " << n - row;
            ++pairs;
          }
        }
      }
      EXPECT_GT(pairs, 20) << dim;
    }
  }
}

TYPED_TEST(GpuFacts, ALongerQueryLeavesLinearAsItIs) {
  for (const Form form : {Form::kBidirectional, Form::kCausal}) {
    for (const int64_t dim : {64, 24}) {
      const auto weights = weights_at_two_lengths<TypeParam>(Rule::kLinear, dim, form);
      EXPECT_LE(max_error(weights[1], weights[0]), 2 * kRounding<TypeParam> * max_size(weights[0]));
    }
  }
}

TYPED_TEST(GpuFacts, PermutingKeysAndValuesChangesNothing) {
  for (const Kernels& kernels : kKernels) {
    if (kernels.form == Form::kCausal) continue;
    for (const Norm norm : kNorms) {
      const AttentionCase c = case_of(kernels, Rule::kMala, norm, Rope::Kind::kNone);
      AttentionProblem<TypeParam> problem(c);
      AttentionResults before = run_on_gpu(problem);
      problem.k.set_values(reversed_rows(problem.k.values(), c.dim));
      problem.v.set_values(reversed_rows(problem.v.values(), c.value_dim));
      before.k = reversed_rows(before.k, c.dim);
      before.v = reversed_rows(before.v, c.value_dim);
      expect_gpu_close<TypeParam>(run_on_gpu(problem), before, c);
    }
  }
}

// Tiles have 64 tokens.
TYPED_TEST(GpuFacts, CausalOutIsTheBidirectionalOutOnEveryPrefix) {
  for (const Kernels& kernels : kKernels) {
    if (kernels.form == Form::kBidirectional) continue;
    for (const Norm norm : kNorms) {
      for (const Rope::Kind kind : {Rope::Kind::kNone, kernels.turned}) {
        const Rule rule = kRules[static_cast<size_t>(norm) * 2 % 3];
        AttentionCase c = well_conditioned(case_of(kernels, rule, norm, kind));
        c.queries = c.keys = 130;
        const AttentionProblem<TypeParam> problem(c);
        const std::vector<double> out = out_of(problem, Form::kCausal);
        for (const int64_t t : {1, 2, 63, 64, 65, 127, 128, 129}) {
          AttentionCase prefix = c;
          prefix.queries = prefix.keys = t;
          AttentionProblem<TypeParam> bidirectional(prefix);
          take_tokens(problem, 0, bidirectional);
          const std::vector<double> expected = out_of(bidirectional, Form::kBidirectional);
          EXPECT_LE(max_error(row_of(out, c, t - 1), row_of(expected, prefix, t - 1)),
                    2 * allowed<TypeParam>(max_size(expected), c, Form::kCausal))
              << "t " << t << ", " << describe(c);
        }
      }
    }
  }
}

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The state goes from the first chunk to the rest, and its gradient back.
template <typename T>
CausalResults run_in_two_chunks(const CausalProblem<T>& whole, int64_t cut) {
  CausalCase of_first = whole.about, of_rest = whole.about;
  of_first.set_tokens(cut);
  of_rest.set_tokens(whole.about.tokens.keys - cut);
  of_rest.before = {cut};
  CausalProblem<T> first(of_first), rest(of_rest);
  take_tokens(whole.tokens, 0, first.tokens);
  take_tokens(whole.tokens, cut, rest.tokens);
  rest.sums = run_on_gpu(first, Pass::kForward).after;
  rest.after_gradient = whole.after_gradient;
  CausalResults after = run_on_gpu(rest);
  first.after_gradient = after.before_gradient;
  const CausalResults before = run_on_gpu(first);
  AttentionResults tokens = before.tokens;
  append(tokens.out, after.tokens.out);
  append(tokens.q, after.tokens.q);
  append(tokens.k, after.tokens.k);
  append(tokens.v, after.tokens.v);
  return {tokens, after.after, before.before_gradient, after.counts};
}

// Features of bfloat16 enter the sums of the kernels for all with 11 bits; finer types have two
// parts of so many, and lose less.
constexpr double kSumsOfChunks = 0x1p-12;

// Everything that flows: out, the state after, and the gradients of all.
TYPED_TEST(GpuFacts, ChunksAreTheWhole) {
  for (const Kernels& kernels : kKernels) {
    if (kernels.form == Form::kBidirectional) continue;
    for (const auto& [norm, cut] : {std::pair(Norm::kPublished, 1), std::pair(Norm::kPrinted, 64),
                                    std::pair(Norm::kBalanced, 100)}) {
      CausalCase c{.tokens = case_of(kernels, Rule::kMala, norm, kernels.turned)};
      c.set_tokens(150);
      const CausalProblem<TypeParam> whole(well_conditioned(c));
      SCOPED_TRACE(str("cut at ", cut));
      expect_gpu_close<TypeParam>(run_in_two_chunks(whole, cut), run_on_gpu(whole), whole.about,
                                  kSumsOfChunks);
    }
  }
}

// Queries without any feature, which relu makes of what is negative and elu1, all that warpgroups
// know, of what is far below: mala and linear give nothing, balanced and inline the mean value.
TYPED_TEST(GpuFacts, AQueryOfZeroFeatures) {
  for (const Kernels& kernels : kKernels) {
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        AttentionCase c = case_of(kernels, rule, norm, kernels.turned);
        const bool usual = kernels.dim == 64;
        if (!usual) c.options.feature = Feature::kRelu;
        AttentionProblem<TypeParam> problem(c);
        problem.q.fill(usual ? -200 : -1);
        const bool mean = norm == Norm::kBalanced || rule == Rule::kInline;
        std::vector<double> expected = mean_values(problem, sight_of(c, kernels.form));
        if (!mean) std::fill(expected.begin(), expected.end(), 0.0);
        const AttentionResults results = run_on_gpu(problem, kernels.form);
        EXPECT_LE(max_error(results.out, expected),
                  allowed<TypeParam>(max_size(expected), c, kernels.form))
            << describe(c);
        EXPECT_EQ(max_error(results.q, std::vector<double>(results.q.size())), 0) << describe(c);
        EXPECT_TRUE(all_finite(results)) << describe(c);
      }
    }
  }
}

// s from far below eps to usual sizes. Without RoPE the weights stay between 0 and 1 for such s,
// with it results are finite, except in float16, whose largest number is 65504.
constexpr double kMostSize = 1.6;  // values are at most 1, sums of their weights nearly so
TYPED_TEST(GpuFacts, SmallMagnitudesStayFinite) {
  for (const Kernels& kernels : kKernels) {
    for (const Norm norm : kNorms) {
      for (const Rope::Kind kind : {Rope::Kind::kNone, kernels.turned}) {
        AttentionCase c = case_of(kernels, Rule::kMala, norm, kind);
        if (std::is_same_v<TypeParam, Float16> && c.has_rope()) continue;
        c.q_low = -60;
        c.q_high = -3;
        const AttentionProblem<TypeParam> problem(c);
        const AttentionResults results = run_on_gpu(problem, kernels.form);
        EXPECT_TRUE(all_finite(results)) << describe(c);
        if (kind == Rope::Kind::kNone) {
          EXPECT_LE(max_size(results.out), kMostSize) << describe(c);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mala::test
