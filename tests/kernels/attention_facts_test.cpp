// Theorems about the operator, checked on the definition and on the kernels of every instruction
// set, in float and in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mala/kernels/attention.h"
#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"
#include "tests/support/every_implementation.h"
#include "tests/support/facts.h"

namespace mala::test {
namespace {

// Results are about one, made of terms about s = 6 times as large: some roundings of those.
template <typename T>
constexpr double kRounding = 100 * std::numeric_limits<T>::epsilon();

class AttentionFacts : public ImplementationTest {
 protected:
  template <typename T>
  AttentionResults run(const AttentionProblem<T>& problem) {
    return is_definition() ? run_reference(problem) : run_kernels(problem);
  }

  template <typename T>
  std::vector<double> run_out(const AttentionCase& c) {
    return run(AttentionProblem<T>(c)).out;
  }
};

AttentionCase usual_case(Rule rule, Norm norm, Rope::Kind kind) {
  AttentionCase c{.heads = 2, .queries = 21, .keys = 34, .dim = 32, .value_dim = 24};
  c.options = options_of(rule, norm);
  c.options.q_rope = some_rope(kind, 0);
  c.options.k_rope = some_rope(kind, 0);
  return c;
}

// Rows that sum to one leave constant values as they are.
TEST_P(AttentionFacts, BalancedRowsSumToOneForEveryEpsAndRope) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Rule rule : kRules) {
      for (const Rope::Kind kind : kRopeKinds) {
        for (const double eps : {0.0, 1e-6, 0.5}) {
          AttentionCase c = usual_case(rule, Norm::kBalanced, kind);
          c.options.eps = eps;
          AttentionProblem<T> problem(c);
          problem.v.fill(3);
          for (const double y : run(problem).out)
            ASSERT_NEAR(y, 3, 3 * kRounding<T>) << describe(c);
        }
      }
    }
  });
}

TEST_P(AttentionFacts, PrintedAndRopeFreePublishedRowsSumToOneWithoutEps) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Rule rule : kRules) {
      for (const bool printed : {true, false}) {
        AttentionCase c = usual_case(rule, printed ? Norm::kPrinted : Norm::kPublished,
                                     printed ? Rope::Kind::kTable : Rope::Kind::kNone);
        c.table_angle = 0.3;  // keeps r away from zero
        c.options.eps = 0;
        AttentionProblem<T> problem(c);
        problem.v.fill(3);
        for (const double y : run(problem).out) ASSERT_NEAR(y, 3, 3 * kRounding<T>) << describe(c);
      }
    }
  });
}

// With eps the rows of mala and linear sum to 1 - eps / (s + eps).
TEST_P(AttentionFacts, EpsTakesItsShareFromTheRowSum) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Rule rule : {Rule::kMala, Rule::kLinear}) {
      AttentionCase c = usual_case(rule, Norm::kPublished, Rope::Kind::kNone);
      c.options.eps = 0.75;
      AttentionProblem<T> problem(c);
      problem.v.fill(1);
      const std::vector<double> out = run(problem).out, s = magnitudes(problem);
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(out[i], 1 - 0.75 / (s[i / c.value_dim] + 0.75), kRounding<T>);
    }
  });
}

TEST_P(AttentionFacts, MalaIsInlinePlusLinearMinusTheMeanValue) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Norm norm : kNorms) {
      for (const Rope::Kind kind : kRopeKinds) {
        AttentionCase c = well_conditioned(usual_case(Rule::kMala, norm, kind));
        c.heads = 1;
        const AttentionProblem<T> problem(c);
        const std::vector<double> mala = run(problem).out, v = problem.v.values();
        c.options.rule = Rule::kInline;
        const std::vector<double> inlined = run_out<T>(c);
        c.options.rule = Rule::kLinear;
        const std::vector<double> linear = run_out<T>(c);
        for (int64_t at = 0; at < c.queries * c.value_dim; ++at) {
          double mean = 0;
          for (int64_t j = 0; j < c.keys; ++j) mean += v[j * c.value_dim + at % c.value_dim];
          mean /= static_cast<double>(c.keys);
          ASSERT_NEAR(mala[at], inlined[at] + linear[at] - mean, 2 * kRounding<T>) << describe(c);
        }
      }
    }
  });
}

TEST_P(AttentionFacts, TheThreeNormsAgreeWithoutRopeAndEps) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Rule rule : kRules) {
      AttentionCase c = usual_case(rule, Norm::kPublished, Rope::Kind::kNone);
      c.options.eps = 0;
      const AttentionResults published = run(AttentionProblem<T>(c));
      for (const Norm norm : {Norm::kPrinted, Norm::kBalanced}) {
        c.options.norm = norm;
        expect_close<T>(run(AttentionProblem<T>(c)), published, c);
      }
    }
  });
}

// Weights (N, M) for queries as they are and `factor` times as long.
template <typename Run>
std::array<std::vector<double>, 2> weights_at_two_lengths(Rule rule, double factor, Run&& run) {
  AttentionCase c{.queries = 20, .keys = 16, .dim = 8, .value_dim = 16};
  c.options = options_of(rule, Norm::kPublished, Feature::kIdentity);
  c.options.eps = 0;
  c.q_low = c.k_low = 0.25;
  AttentionProblem<double> problem(c);
  set_unit_values(problem);
  std::array<std::vector<double>, 2> weights;
  weights[0] = run(problem).out;
  std::vector<double> longer = problem.q.values();
  for (double& x : longer) x *= factor;
  problem.q.set_values(longer);
  weights[1] = run(problem).out;
  return weights;
}

// The point of the operator: a query twice as long prefers more strongly. The ratio of two weights
// grows from p to (beta x_m - g) / (beta x_n - g), g = gamma a beta / (beta + a - 1); the terms
// beta x = weight + gamma follow from the weights themselves once s is known.
TEST_P(AttentionFacts, ALongerQuerySharpensMala) {
  constexpr double kFactor = 2;
  const auto weights =
      weights_at_two_lengths(Rule::kMala, kFactor, [&](auto& p) { return run(p); });
  const auto linear =
      weights_at_two_lengths(Rule::kLinear, kFactor, [&](auto& p) { return run(p); });
  int64_t pairs = 0;
  for (size_t row = 0; row < weights[0].size(); row += 16) {
    for (size_t m = row; m < row + 16; ++m) {
      for (size_t n = row; n < row + 16; ++n) {
        const double p = weights[0][m] / weights[0][n], longer = weights[1][m] / weights[1][n];
        if (weights[1][n] < 1e-3 || weights[0][m] <= weights[0][n] * 1.001) continue;
        // mala = (1 + s) linear - s / M, for the first key of the pair solved for s.
        const double s = (weights[0][m] - linear[0][m]) / (linear[0][m] - 1.0 / 16);
        const double beta = 1 + 1 / s, gamma = s / 16;
        const double g = gamma * kFactor * beta / (beta + kFactor - 1);
        const double slide = (weights[0][m] + gamma - g) / (weights[0][n] + gamma - g);
        EXPECT_GT(longer, p);
        EXPECT_NEAR(longer / slide, 1, 1e-9);
        ++pairs;
      }
    }
  }
  EXPECT_GT(pairs, 500);
}

TEST_P(AttentionFacts, ALongerQueryLeavesLinearAsItIs) {
  const auto weights = weights_at_two_lengths(Rule::kLinear, 3, [&](auto& p) { return run(p); });
  EXPECT_LT(max_error(weights[1], weights[0]), kRounding<double>);
}

TEST_P(AttentionFacts, PermutingKeysAndValuesChangesNothing) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Norm norm : kNorms) {
      AttentionCase c = usual_case(Rule::kMala, norm, Rope::Kind::kNone);
      c.heads = 1;
      AttentionProblem<T> problem(c);
      AttentionResults before = run(problem);
      problem.k.set_values(reversed_rows(problem.k.values(), c.dim));
      problem.v.set_values(reversed_rows(problem.v.values(), c.value_dim));
      before.k = reversed_rows(before.k, c.dim);
      before.v = reversed_rows(before.v, c.value_dim);
      expect_close<T>(run(problem), before, c);
    }
  });
}

// About half of the weights are negative without key_mean: nobody may clamp them.
TEST_P(AttentionFacts, WeightsCanBeNegative) {
  AttentionCase c{.queries = 64, .keys = 64, .dim = 64, .value_dim = 64};
  c.options.key_mean = false;
  AttentionProblem<float> problem(c);
  set_unit_values(problem);
  int64_t negative = 0;
  for (const double w : run(problem).out) negative += w < 0;
  EXPECT_GT(negative, 64 * 64 * 3 / 10);
  EXPECT_LT(negative, 64 * 64 * 7 / 10);
}

// Queries without any feature: mala and linear give nothing, balanced and inline the mean value.
TEST_P(AttentionFacts, AQueryOfZeroFeatures) {
  for (const Rope::Kind kind : kRopeKinds) {
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        AttentionCase c = usual_case(rule, norm, kind);
        c.options.feature = Feature::kRelu;
        AttentionProblem<float> problem(c);
        problem.q.fill(-1);
        problem.v.fill(2);
        const bool mean = norm == Norm::kBalanced || rule == Rule::kInline;
        const AttentionResults results = run(problem);
        for (const double y : results.out) ASSERT_NEAR(y, mean ? 2 : 0, kRounding<float>);
        for (const double dq : results.q) ASSERT_EQ(dq, 0);
        for (const double dk : results.k) ASSERT_TRUE(std::isfinite(dk)) << describe(c);
      }
    }
  }
}

// s from far below eps to usual sizes. Without RoPE the weights stay between 0 and 1 for such s,
// with it they are finite.
TEST_P(AttentionFacts, SmallMagnitudesStayFinite) {
  for (const Rope::Kind kind : kRopeKinds) {
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        AttentionCase c = usual_case(rule, norm, kind);
        c.q_low = -60;
        c.q_high = -3;
        AttentionProblem<float> problem(c);
        const AttentionResults results = run(problem);
        for (const auto* x : {&results.out, &results.q, &results.k, &results.v})
          for (const double y : *x) ASSERT_TRUE(std::isfinite(y)) << describe(c);
        if (kind == Rope::Kind::kNone) {
          EXPECT_LE(max_size(results.out), 1.6) << describe(c);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DefinitionAndEveryIsa, AttentionFacts,
                         testing::ValuesIn(implementations()), isa_name);

}  // namespace
}  // namespace mala::test
